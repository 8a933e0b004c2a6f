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
from hcma.training.trainer import step_of

LEVELS = ['sentence_global', 'word_patch', 'phrase_region']
FLAT = {'stem': 'patchify', 'patch_size': 4, 'depth': 0}
TEACHER = {'image': {**FLAT, 'size': 24, 'width': 12}, 'text': {'length': 10, 'depth': 1}, 'embed_width': 12,
           'word_embed_width': 6, 'fusion': {'depth': 2, 'heads': 4}}
# A grid of 4 x 4 patches against 6 x 6, and 8 tokens against 10.
STUDENT = {'image': FLAT, 'text': {'depth': 0}, 'fusion': {'heads': 2}}
# Weights that are all different, so that a part in the wrong place would show.
WEIGHTS = {'features': {'word': 2.0, 'patch': 3.0, 'sentence': 4.0, 'global': 5.0},
           'similarity': {'sentence_global': 6.0, 'word_patch': 7.0, 'phrase_region': 8.0},
           'attention': {'word_patch': 9.0, 'fusion': 10.0}, 'interactive': 11.0, 'own': 0.5}
PARTS = ['word', 'patch', 'sentence', 'global', 'similarity_sentence_global', 'similarity_word_patch',
         'similarity_phrase_region', 'attention_word_patch', 'attention_fusion', 'interactive']
BATCH = 4


@pytest.fixture(scope='module')
def make_pair(make_recipe, make_batch, vocabulary):
    """``make_pair(distance)``: network, teacher, the columns of a batch, and the student's recipe."""
    def make(distance):
        recipe = make_recipe(model=STUDENT, loss={'levels': LEVELS},
                             distill={**WEIGHTS, 'distance': distance, 'temperature': 2.0})
        taught_by = make_recipe(model=TEACHER, loss={'levels': LEVELS[::-1], 'temperature': {'initial': 0.2}}, seed=5)
        teacher = Teacher(build_model(taught_by, vocabulary), taught_by.model.image.grid)
        network = StudentLoss(alignment_network(recipe, vocabulary), recipe.distill, teacher, len(recipe.columns),
                              recipe.model.image.grid, Init(1))
        rng = np.random.default_rng(0)
        align = rng.random((BATCH, 8, 10)).astype(np.float32) * (rng.random((BATCH, 8, 1)) < 0.7)
        align /= np.maximum(align.sum(2, keepdims=True), 1e-6)
        taught = teacher(*make_batch(taught_by, BATCH, 7)[:3])
        return network, teacher, (*make_batch(recipe, BATCH), *taught, Tensor(align)), recipe
    return make


def features_of(network, teacher, columns):
    """All features and projections in float64 by name."""
    text, image = network.model.text_tower(*columns[1:3]), network.model.image_tower(columns[0])
    named = {f'teacher_{name}': feature for name, feature in zip(teacher.names, columns[4:])}
    named.update(zip(network.model.text_tower.names, text))
    named.update(zip(network.model.image_tower.names, image))
    fusion = network.model.fusion
    named['fusion_map'] = fusion.attention(fusion.text_parts(text), fusion.image_parts(image))[-1]
    named['align'] = columns[-1]
    named.update({parameter.name: parameter for parameter in network.trainable_params()})
    return {name: feature.asnumpy().astype(np.float64) for name, feature in named.items()}


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


@pytest.mark.parametrize('distance', ['mse', 'cosine'])
def test_each_part_is_its_formula_in_float64_and_the_loss_their_weighted_sum(distance, make_pair):
    network, teacher, columns, recipe = make_pair(distance)
    loss, parts = network(*columns)
    assert network.part_names[4:] == tuple(f'loss_taught_{name}' for name in PARTS)
    expected = references(features_of(network, teacher, columns), teacher, recipe.distill)
    np.testing.assert_allclose(parts.asnumpy()[4:], [expected[name] for name in PARTS], rtol=2e-4)
    own = parts.asnumpy()[:4].sum()
    total = 0.5 * own + sum(weight * expected[name] for weight, name in zip(range(2, 12), PARTS))
    assert loss.asnumpy() == pytest.approx(total, rel=1e-4)


def test_each_part_teaches_the_student_and_nothing_of_the_teacher_is_trained(make_pair):
    network, teacher, columns, _ = make_pair('cosine')
    owned = {id(parameter) for parameter in teacher.get_parameters()}
    assert not owned & {id(parameter) for parameter in network.get_parameters()}
    assert teacher.trainable_params() == [] and not any(cell.training for _, cell in teacher.cells_and_names())
    before = {p.name: p.asnumpy().copy() for p in teacher.get_parameters()}
    weights = {p.name: p for p in network.trainable_params()}
    towers = [weights['text_tower.encoder.embedding'], weights['image_tower.encoder.position']]
    for place, name in enumerate(PARTS, start=4):
        gradients = ms.grad(lambda *inputs: network(*inputs)[1][place], None, towers)(*columns)
        of_text, of_image = (np.abs(gradient.asnumpy()).max() > 0 for gradient in gradients)
        assert (of_text, of_image) == (name not in ('patch', 'global'), name not in ('word', 'sentence')), name
    assert all(np.array_equal(before[p.name], p.asnumpy()) for p in teacher.get_parameters())


@pytest.mark.graph
def test_staged_and_fused_steps_with_every_part_are_the_same_in_both_modes(make_pair):
    rows = []
    for mode, parts in ((ms.PYNATIVE_MODE, {}), (ms.GRAPH_MODE, {}), (ms.GRAPH_MODE, {'image_micro_batch': 3})):
        ms.set_context(mode=mode)
        network, _, columns, recipe = make_pair('mse')
        step = step_of(network, recipe.model_copy(update={'train': recipe.train.model_copy(update=parts)}), 10)
        rows.append([step(*columns)[1].asnumpy() for _ in range(2)])
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows[2], rows[1], rtol=1e-4, atol=1e-4)


def test_widths_that_are_the_same_need_no_projection(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(distill={'features': {'word': 1, 'global': 1}, 'interactive': 1})
    teacher = Teacher(build_model(recipe, vocabulary), recipe.model.image.grid)
    network = StudentLoss(alignment_network(recipe, vocabulary), recipe.distill, teacher, 4, 4, Init(1))
    assert {p.name for p in network.get_parameters()} == {p.name for p in network.model.get_parameters()}
    batch = make_batch(recipe)
    same = np.zeros((4, 8, 8), np.float32) + np.eye(8, dtype=np.float32)
    _, parts = network(*batch, *teacher(*batch[:3]), Tensor(same))
    np.testing.assert_allclose(parts.asnumpy()[2:4], 0, atol=1e-6)  # the student is its teacher's twin
