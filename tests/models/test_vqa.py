"""Heads that answer questions: what must not matter does not, all are of one size, and only what should learns."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.answers import AnswerLoss
from hcma.models.hcma import build_model
from hcma.models.layers import Init
from hcma.models.vqa import ImageFeatures, WordPatchJoin, build_vqa

ANSWERS = 7
HEADS = ('word_patch', 'global', 'question')
FLAT = {'levels': ['sentence_global']}


@pytest.fixture
def make(make_recipe, vocabulary):
    """``make(head, **sections)``: a model with random weights and its recipe."""
    def build(head, **sections):
        recipe = make_recipe(vqa={'checkpoint': 'none', 'head': head}, **sections)
        return build_vqa(recipe, build_model(recipe, vocabulary), ANSWERS), recipe
    return build


def answers(model, batch):
    image, ids, length = batch[:3]
    features = ImageFeatures(model.encoders.image_tower.encoder)(image)
    return model(features, ids, length).asnumpy()


def own_size(model):
    encoders = {id(parameter) for parameter in model.encoders.get_parameters()}
    return sum(p.size for p in model.get_parameters() if id(p) not in encoders)


@pytest.mark.parametrize('head', HEADS)
def test_ids_beyond_a_question_do_not_matter(head, make, make_batch):
    model, recipe = make(head)
    image, ids, length, _ = make_batch(recipe)
    beyond = np.arange(ids.shape[1]) >= length.asnumpy()[:, None]
    padded, filled = (Tensor(np.where(beyond, value, ids.asnumpy()).astype(np.int32)) for value in (0, 9))
    np.testing.assert_allclose(answers(model, (image, padded, length)), answers(model, (image, filled, length)),
                               atol=1e-6)


@pytest.mark.parametrize('head, matters', [('word_patch', True), ('global', True), ('question', False)])
def test_only_the_question_head_ignores_the_picture(head, matters, make, make_batch):
    model, recipe = make(head)
    image, ids, length, _ = make_batch(recipe)
    other = make_batch(recipe, seed=1)[0]
    assert np.allclose(answers(model, (image, ids, length)), answers(model, (other, ids, length))) != matters


def join_of(make_recipe, rng, image_width=16):
    config = make_recipe(model={'image': {'width': image_width}}).model
    shapes = (3, 8, 16), (3, 16, image_width), (3, 8, 8), (3, 16, 8)
    word, patch, word_shared, patch_shared = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    mask = np.array([[0, 1, 1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 0], [0] * 8], np.float32)
    join = WordPatchJoin(config, Init(0))

    def call(*parts):
        return join(*map(Tensor, parts)).asnumpy()
    return call, word, mask, patch, word_shared, patch_shared


@pytest.mark.parametrize('image_width', (16, 24))
def test_words_outside_the_mask_and_the_order_of_patches_do_not_matter(image_width, make_recipe):
    rng = np.random.default_rng(0)
    call, word, mask, patch, word_shared, patch_shared = join_of(make_recipe, rng, image_width)
    row = call(word, mask, patch, word_shared, patch_shared)
    outside = mask[..., None] == 0
    changed = np.where(outside, 5, word).astype(np.float32), np.where(outside, 5, word_shared).astype(np.float32)
    np.testing.assert_allclose(row, call(changed[0], mask, patch, changed[1], patch_shared), atol=1e-5)
    order = rng.permutation(16)
    np.testing.assert_allclose(row, call(word, mask, patch[:, order], word_shared, patch_shared[:, order]), atol=1e-5)
    assert np.isfinite(row).all()  # the last text has no words


def test_a_word_near_one_patch_has_that_patch_as_its_context(make_recipe):
    call, word, mask, patch, word_shared, patch_shared = join_of(make_recipe, np.random.default_rng(0))
    patch_shared[:] = 0
    patch_shared[:, 5], word_shared[:] = 1, 1
    row = call(word, mask, patch, word_shared, patch_shared)
    np.testing.assert_allclose(row[:2, 48:], patch[:2, 5], atol=1e-5)
    mean = (word * mask[..., None])[:2].sum(1) / mask[:2].sum(1, keepdims=True)
    np.testing.assert_allclose(row[:2, 32:48], patch[:2, 5] * mean, atol=1e-5)


def test_all_heads_have_as_many_parameters(make):
    sizes = [own_size(make(head)[0]) for head in HEADS]
    for size in sizes[1:]:
        assert sizes[0] - 64 < size <= sizes[0]  # up to one hidden unit


def test_a_flat_model_gets_projections_of_its_own(make):
    flat, hierarchical = make('word_patch', loss=FLAT)[0], make('word_patch')[0]
    assert own_size(flat) - own_size(hierarchical) == 2 * 16 * 8
    assert {p.name for p in flat.trainable_params()} >= {'to_word.linear.weight', 'to_patch.linear.weight'}


@pytest.mark.parametrize('frozen', [(), ('image',), ('text',), ('image', 'text')])
@pytest.mark.parametrize('head', HEADS)
def test_the_head_learns_and_of_the_towers_what_it_reads_and_is_not_frozen(head, frozen, make, make_batch):
    model, recipe = make(head)
    model.train_only(frozen)
    loss = AnswerLoss(model, features=False)
    weights, inputs = loss.trainable_params(), [*make_batch(recipe)[:3], Tensor([0, 1, 2, 0], ms.int32)]
    _, gradients = ms.value_and_grad(loss, None, weights, has_aux=True)(*inputs)
    assert all(np.abs(gradient.asnumpy()).max() > 0 for gradient in gradients)
    towers = {p.name.split('.')[1] for p in weights if p.name.startswith('encoders.')}
    read = {'image', 'text'} if head != 'question' else {'text'}
    assert towers == {f'{tower}_tower' for tower in read - set(frozen)}
