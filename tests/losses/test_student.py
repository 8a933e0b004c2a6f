"""A student of other sizes than its teacher: each part of its loss is its formula in float64, and teaches it."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.student import StudentLoss
from hcma.models.hcma import build_model
from hcma.models.layers import Init
from hcma.models.teacher import Teacher
from hcma.training.alignment import alignment_network

LEVELS = ['sentence_global', 'word_patch', 'phrase_region']
TEACHER = {'image': {'size': 24, 'width': 12, 'stem': 'patchify', 'patch_size': 4}, 'embed_width': 12,
           'text': {'length': 10, 'depth': 2}, 'word_embed_width': 6, 'fusion': {'depth': 2, 'heads': 4}}
STUDENT = {'fusion': {'heads': 2}}  # a grid of 4 x 4 patches against 6 x 6, and 8 tokens against 10
# Weights that are all different, so that a part in the wrong place would show.
WEIGHTS = {'features': {'word': 2.0, 'patch': 3.0, 'sentence': 4.0, 'global': 5.0},
           'similarity': {'sentence_global': 6.0, 'word_patch': 7.0, 'phrase_region': 8.0},
           'attention': {'word_patch': 9.0, 'fusion': 10.0}, 'interactive': 11.0, 'own': 0.5}
PARTS = ['word', 'patch', 'sentence', 'global', 'similarity_sentence_global', 'similarity_word_patch',
         'similarity_phrase_region', 'attention_word_patch', 'attention_fusion', 'interactive']
BATCH = 4


@pytest.fixture(scope='module', params=['mse', 'cosine'])
def pair(request, make_recipe, make_batch, vocabulary):
    """Network, teacher, the batch of both as columns of the network, and all features in float64 by name."""
    recipe = make_recipe(model=STUDENT, loss={'levels': LEVELS},
                         distill={**WEIGHTS, 'distance': request.param, 'temperature': 2.0})
    taught_by = make_recipe(model=TEACHER, loss={'levels': LEVELS[::-1], 'temperature': {'initial': 0.2}}, seed=5)
    teacher = Teacher(build_model(taught_by, vocabulary), taught_by.model.image.grid)
    batch, (picture, ids, length, _) = make_batch(recipe, BATCH), make_batch(taught_by, BATCH, 7)
    network = StudentLoss(alignment_network(recipe, vocabulary), recipe.distill, teacher, len(recipe.columns),
                          recipe.model.image.grid, Init(1))
    rng = np.random.default_rng(0)
    align = rng.random((BATCH, 8, 10)).astype(np.float32) * (rng.random((BATCH, 8, 1)) < 0.7)
    align /= np.maximum(align.sum(2, keepdims=True), 1e-6)
    taught = teacher(picture, ids, length)
    columns = (*batch, *taught, Tensor(align))
    named = {f'teacher_{name}': feature for name, feature in zip(teacher.names, taught)}
    text, image = network.model.text_tower(*batch[1:3]), network.model.image_tower(batch[0])
    named.update(zip(network.model.text_tower.names, text), **dict(zip(network.model.image_tower.names, image)))
    fusion = network.model.fusion
    named['fusion_map'] = fusion.attention(fusion.text_parts(text), fusion.image_parts(image))[-1]
    named.update({parameter.name: parameter for parameter in network.trainable_params()})
    arrays = {name: feature.asnumpy().astype(np.float64) for name, feature in named.items()}
    return network, teacher, columns, {**arrays, 'align': align.astype(np.float64)}, recipe.distill


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True).clip(1e-9)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def kl(teacher, student):
    return (teacher * np.log((teacher + 1e-30) / student)).sum(-1)


def late_interaction(word, mask, patch):
    cosine = np.einsum('tle,ipe->tilp', word, patch)
    by_word = (cosine.max(3) * mask[:, None]).sum(2) / mask.sum(1).clip(1)[:, None]
    by_patch = np.where(mask[:, None, :, None] > 0, cosine, -9).max(2).mean(2)
    return np.where(mask.any(1)[:, None], (by_word + by_patch) / 2, 0)


def mean_over_grid(grid, other):
    """Each patch of ``grid`` as the mean of the points of ``other`` x ``other`` patches in it: a fine raster's."""
    points = (np.arange(240) + 0.5) / 240
    of, at = (points * grid).astype(int), (points * other).astype(int)
    along = np.zeros((grid, other))
    np.add.at(along, (of, at), grid / 240)
    return np.kron(along, along)


def scores(f, level, prefix=''):
    if level == 'sentence_global':
        return f[f'{prefix}sentence'] @ f[f'{prefix}global'].T
    text, image = {'word_patch': ('word', 'patch'), 'phrase_region': ('phrase', 'region')}[level]
    return late_interaction(f[prefix + text], f[f'{prefix}{text}_mask'], f[prefix + image])


def info_nce(score):
    return np.mean([(np.log(np.exp(s).sum(1)) - np.diag(s)).mean() for s in (score, score.T)])


def references(f, teacher, distill):
    """Every part by name."""
    words = f['align'].sum(2) > 0.5
    of_words = unit(f['align'] @ f['teacher_word'])
    parts = {}
    for name, rows, target in (('word', f['word'][words], of_words[words]),
                               ('patch', mean_over_grid(6, 4) @ f['patch'], f['teacher_patch']),
                               ('sentence', f['sentence'], f['teacher_sentence']),
                               ('global', f['global'], f['teacher_global'])):
        rows = rows @ f[f'adapt_{name}.weight'].T
        parts[name] = (((rows - target) ** 2).sum(-1) if distill.distance == 'mse' else
                       1 - (unit(rows) * unit(target)).sum(-1)).mean()
    scale = dict(zip(LEVELS, np.exp(f['log_scale'])))
    for level in LEVELS:
        both = scores(f, level) * scale[level] / 2, scores(f, level, 'teacher_') * teacher.scales[level] / 2
        parts[f'similarity_{level}'] = 4 * np.mean([kl(softmax(t), softmax(s)).mean()
                                                    for s, t in (both, (both[0].T, both[1].T))])
    maps = [softmax(20 * f[f'{side}word'] @ f[f'{side}patch'].swapaxes(1, 2)) for side in ('', 'teacher_')]
    for name, student, target in (('word_patch', *maps),
                                  ('fusion', f['fusion_map'].mean(1), f['teacher_fusion_map'])):
        student = student @ (mean_over_grid(6, 4).T * 16 / 36)
        parts[f'attention_{name}'] = kl((f['align'] @ target)[words], student[words]).mean()
    mine = [unit(f[name] @ f[f'interact_{name}.weight'].T) for name in ('sentence', 'global')]
    parts['interactive'] = np.mean([info_nce(score * teacher.scales['sentence_global']) for score in (
        mine[0] @ f['teacher_global'].T, f['teacher_sentence'] @ mine[1].T)])
    return parts


def test_each_part_is_its_formula_in_float64_and_the_loss_their_weighted_sum(pair):
    network, teacher, columns, features, distill = pair
    loss, parts = network(*columns)
    assert network.part_names[4:] == tuple(f'loss_taught_{name}' for name in PARTS)
    expected = references(features, teacher, distill)
    np.testing.assert_allclose(parts.asnumpy()[4:], [expected[name] for name in PARTS], rtol=2e-4)
    own = parts.asnumpy()[:4].sum()
    total = 0.5 * own + sum(weight * expected[name] for weight, name in zip(range(2, 12), PARTS))
    assert loss.asnumpy() == pytest.approx(total, rel=1e-4)


def test_each_part_teaches_the_student_and_nothing_of_the_teacher_is_trained(pair):
    network, teacher, columns, _, _ = pair
    weights = network.trainable_params()
    owned = {id(parameter) for parameter in teacher.get_parameters()}
    assert not owned & {id(parameter) for parameter in network.get_parameters()}
    assert teacher.trainable_params() == [] and not any(cell.training for _, cell in teacher.cells_and_names())
    before = {p.name: p.asnumpy().copy() for p in teacher.get_parameters()}
    for place, name in enumerate(PARTS, start=4):
        gradients = ms.grad(lambda *inputs: network(*inputs)[1][place], None, weights)(*columns)
        moved = {weight.name for weight, gradient in zip(weights, gradients) if np.abs(gradient.asnumpy()).max() > 0}
        of_text = {'text_tower.encoder.embedding'} if name not in ('patch', 'global') else set()
        of_image = {'image_tower.encoder.position'} if name not in ('word', 'sentence') else set()
        assert moved >= of_text | of_image, name
    assert all(np.array_equal(before[p.name], p.asnumpy()) for p in teacher.get_parameters())


def test_widths_that_are_the_same_need_no_projection(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(distill={'features': {'word': 1, 'global': 1}, 'interactive': 1})
    teacher = Teacher(build_model(recipe, vocabulary), recipe.model.image.grid)
    network = StudentLoss(alignment_network(recipe, vocabulary), recipe.distill, teacher, 4, 4, Init(1))
    assert {p.name for p in network.get_parameters()} == {p.name for p in network.model.get_parameters()}
    batch = make_batch(recipe)
    same = np.zeros((4, 8, 8), np.float32) + np.eye(8, dtype=np.float32)
    _, parts = network(*batch, *teacher(*batch[:3]), Tensor(same))
    np.testing.assert_allclose(parts.asnumpy()[2:4], 0, atol=1e-6)  # the student is its teacher's twin
