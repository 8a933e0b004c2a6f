"""The hierarchical loss is the weighted sum of its levels, and one level of it is plain CLIP."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.blockwise import FLOATS
from hcma.losses.contrastive import info_nce, positives
from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model
from hcma.training.trainer import build_step

# Smooth but for the stem and the maxima, and warm enough for differences in float32.
# No ReLU: where one changes sides, differences of the loss say nothing of its gradient.
SMOOTH = {'model': {'text': {'activation': 'gelu', 'depth': 2},
                    'image': {'activation': 'quick_gelu', 'pool': 'class', 'stem': 'patchify', 'patch_size': 4}},
          'loss': {'temperature': {'initial': 0.5}}}
STEP = 3e-4  # small, since the loss has a kink wherever a word changes its best patch


def clip(sentence, picture, temperature):
    """The loss of CLIP's paper in float64: cross entropy with the diagonal, over rows and over columns."""
    logits = sentence @ picture.T / temperature

    def cross_entropy(matrix):
        return (np.log(np.exp(matrix).sum(1)) - np.diag(matrix)).mean()
    return (cross_entropy(logits) + cross_entropy(logits.T)) / 2


def test_sentence_global_alone_is_plain_clip(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(loss={'levels': ['sentence_global']})
    model = build_model(recipe, vocabulary)
    image, ids, lengths, group = make_batch(recipe, 5)
    (sentence,), (picture,) = model.text_tower(ids, lengths), model.image_tower(image)
    expected = clip(sentence.asnumpy().astype(np.float64), picture.asnumpy().astype(np.float64), 0.07)
    loss, by_level = HierarchicalLoss(model, (1,))(image, ids, lengths, group)
    assert loss.asnumpy() == pytest.approx(expected, rel=1e-5)
    assert by_level.asnumpy() == pytest.approx([expected], rel=1e-5)


def test_loss_is_the_weighted_sum_of_the_levels(make_recipe, make_batch, vocabulary):
    model = build_model(make_recipe(), vocabulary)
    image, ids, lengths, group = make_batch(make_recipe())
    group = Tensor(np.where(group.asnumpy() == 1, 0, group.asnumpy()))
    loss, by_level = HierarchicalLoss(model, (0.25, 3.0))(image, ids, lengths, group)
    levels = [info_nce(score, positives(group, group)).asnumpy() for score in model(image, ids, lengths)]
    np.testing.assert_allclose(by_level.asnumpy(), levels, rtol=1e-6)
    assert loss.asnumpy() == pytest.approx(0.25 * levels[0] + 3 * levels[1], rel=1e-6)


def test_learned_weights_are_the_inverse_variances_with_their_logarithms(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(loss={'balance': 'uncertainty'}, model={'fusion': {'heads': 2}})
    model = build_model(recipe, vocabulary)
    model.log_variance.set_data(Tensor([0.5, -1.0, 0.25], ms.float32))
    loss, by_term = HierarchicalLoss(model, (1, 1, 1))(*make_batch(recipe))
    log_variance = model.log_variance.asnumpy()
    assert loss.asnumpy() == pytest.approx((np.exp(-log_variance) * by_term.asnumpy() + log_variance).sum(), rel=1e-5)


def test_wrong_texts_that_are_absent_change_nothing(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(model={'fusion': {'heads': 2}}, loss={'levels': ['sentence_global', 'phrase_region']})
    batch = make_batch(recipe)
    model = build_model(recipe, vocabulary)
    # A loss each: the draws of hard negatives go on from call to call.
    losses = [HierarchicalLoss(model, (1, 1, 1))(*batch, *extra)[1].asnumpy() for extra in
              ((), (batch[1], batch[2] * 0), (Tensor(batch[1].asnumpy()[::-1].copy()), batch[2]))]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert (losses[2][:2] > losses[0][:2]).all()


@pytest.mark.graph
@pytest.mark.parametrize('score', ['max', 'attention', 'in_pair'])
def test_one_step_with_every_part_is_the_same_in_both_modes(score, make_recipe, make_batch, vocabulary):
    recipe = make_recipe(loss={'levels': ['sentence_global', 'word_patch', 'phrase_region'], 'score': score,
                               'balance': 'uncertainty'}, model={'fusion': {'heads': 2}})
    image, ids, lengths, group = make_batch(recipe)
    inputs = image, ids, lengths, group, ids[::-1], lengths * Tensor([1, 0, 1, 1], ms.int32)
    rows = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        step = build_step(recipe, vocabulary, 10)
        rows.append([step(*inputs)[1].asnumpy() for _ in range(2)])
    np.testing.assert_allclose(*rows, rtol=2e-5, atol=1e-5)
    assert np.isfinite(rows[0]).all()


@pytest.mark.graph
def test_in_blocks_a_fusion_learns_from_the_same_pairs(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(model={'fusion': {'heads': 2}, 'image': {'depth': 0}, 'text': {'depth': 0}})
    model, batch, found = build_model(recipe, vocabulary), make_batch(recipe, 6), []
    for floats in (FLOATS, 2000):
        network = HierarchicalLoss(model, (1, 1, 1), floats=floats)
        parameters = ms.ParameterTuple(network.trainable_params())
        (loss, _), gradients = ms.value_and_grad(network, None, parameters, has_aux=True)(*batch)
        found.append([loss.asnumpy(), *(gradient.asnumpy() for gradient in gradients)])
    for whole, blocks in zip(*found):
        np.testing.assert_allclose(blocks, whole, rtol=1e-4, atol=1e-5 * np.abs(whole).max() + 1e-9)


@pytest.fixture(scope='module')
def whole(make_recipe, make_batch, vocabulary):
    """The loss of a whole network as a function of the list of its weights, such a list, and the gradients there."""
    recipe = make_recipe(**SMOOTH)
    network = HierarchicalLoss(build_model(recipe, vocabulary), (1, 1))
    batch, parameters = make_batch(recipe), network.trainable_params()
    rng = np.random.default_rng(0)
    # moved from where they start, so that no gain, shift or bias is at a special value
    start = [p.asnumpy() + 0.1 * rng.normal(size=p.shape) for p in parameters]

    def loss(weights):
        for parameter, weight in zip(parameters, weights):
            parameter.set_data(Tensor(weight, ms.float32))
        return float(network(*batch)[0].asnumpy())
    loss(start)
    gradients = ms.grad(lambda *inputs: network(*inputs)[0], None, network.trainable_params())(*batch)
    return loss, start, [gradient.asnumpy().astype(np.float64) for gradient in gradients]


@pytest.mark.parametrize('seed', range(4))
def test_gradient_of_the_whole_network_is_the_numerical_one(whole, seed):
    """Every parameter moves as far, along its own gradient or against it: the loss changes by the signed norms' sum."""
    loss, start, gradients = whole
    norms = np.array([np.linalg.norm(gradient) for gradient in gradients])
    signs = np.random.default_rng(seed).choice([-1, 1], len(norms))
    steps = [STEP * sign * gradient / norm for sign, gradient, norm in zip(signs, gradients, norms)]
    ahead = loss([weight + step for weight, step in zip(start, steps)])
    behind = loss([weight - step for weight, step in zip(start, steps)])
    assert (ahead - behind) / (2 * STEP) == pytest.approx(signs @ norms, abs=1e-3 * norms.sum())
