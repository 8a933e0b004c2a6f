"""The hierarchical loss is the weighted sum of its levels, and one level of it is plain CLIP."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.contrastive import info_nce, positives
from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model

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
    levels = [info_nce(score, positives(group)).asnumpy() for score in model(image, ids, lengths)]
    np.testing.assert_allclose(by_level.asnumpy(), levels, rtol=1e-6)
    assert loss.asnumpy() == pytest.approx(0.25 * levels[0] + 3 * levels[1], rel=1e-6)


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
