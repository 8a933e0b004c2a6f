"""AdamW is the paper's, with bias correction and decay for matrices only; the rate warms up and follows a cosine."""
import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model
from hcma.training.optimizer import AdamW, WarmupCosine, build_optimizer, decays_weight, layer_rates

SHAPES = [(3, 4), (4,), (2, 2)]
DECAYS = [0.1, 0.0, 0.5]
ONE = Tensor(1.0, ms.float32)


def rates(peak, total, warmup, final):
    schedule = WarmupCosine(peak, total, warmup, final)
    return [float(schedule(Tensor(step, ms.int32))) for step in range(total + 2)]


def constant(rate):
    return WarmupCosine(rate, 100, 0, 1.0)


def optimizer(schedule, betas, eps, seed=0):
    """AdamW over random parameters of ``SHAPES``, and their values."""
    rng = np.random.default_rng(seed)
    parameters = [Parameter(Tensor(rng.normal(size=shape), ms.float32), name=f'p{number}')
                  for number, shape in enumerate(SHAPES)]
    return AdamW(parameters, DECAYS, schedule, betas, eps), [p.asnumpy().astype(np.float64) for p in parameters]


def reference(weights, gradients, rates, betas, eps):
    """AdamW as in Loshchilov and Hutter (2019), in float64."""
    first, second = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]
    for step, (row, lr) in enumerate(zip(gradients, rates), 1):
        for number, gradient in enumerate(row):
            first[number] = betas[0] * first[number] + (1 - betas[0]) * gradient
            second[number] = betas[1] * second[number] + (1 - betas[1]) * gradient ** 2
            corrected = first[number] / (1 - betas[0] ** step), second[number] / (1 - betas[1] ** step)
            weights[number] = (weights[number] * (1 - lr * DECAYS[number])
                               - lr * corrected[0] / (np.sqrt(corrected[1]) + eps))
    return weights


@pytest.mark.parametrize('betas, eps', [((0.9, 0.98), 1e-8), ((0.9, 0.999), 1e-2), ((0.0, 0.5), 1e-3)])
def test_five_steps_are_the_reference_in_float64(betas, eps):
    adamw, weights = optimizer(WarmupCosine(0.05, 5, 2, 0.1), betas, eps)
    rng = np.random.default_rng(1)
    gradients = [[rng.normal(size=shape) * 10.0 ** -number for number, shape in enumerate(SHAPES)] for _ in range(5)]
    for row in gradients:
        adamw(tuple(Tensor(gradient, ms.float32) for gradient in row), ONE)
    expected = reference(weights, gradients, rates(0.05, 5, 2, 0.1), betas, eps)
    for parameter, weight in zip(adamw.parameters, expected):
        np.testing.assert_allclose(parameter.asnumpy(), weight, rtol=1e-4, atol=1e-5)
    assert int(adamw.step) == 5


@pytest.mark.parametrize('size', [1e-6, 1.0, 1e6])
def test_first_update_has_the_size_of_the_rate_whatever_the_gradient(size):
    """Without bias correction it would be a third of it."""
    adamw, weights = optimizer(constant(0.01), (0.9, 0.98), 1e-12)
    adamw(tuple(Tensor(-size * np.ones(shape), ms.float32) for shape in SHAPES), ONE)
    for parameter, weight, decay in zip(adamw.parameters, weights, DECAYS):
        np.testing.assert_allclose(parameter.asnumpy() - weight * (1 - 0.01 * decay), 0.01, rtol=1e-3)


def test_without_gradients_only_decay_acts():
    adamw, weights = optimizer(constant(0.01), (0.9, 0.98), 1e-8)
    adamw(tuple(Tensor(np.zeros(shape), ms.float32) for shape in SHAPES), ONE)
    for parameter, weight, decay in zip(adamw.parameters, weights, DECAYS):
        np.testing.assert_allclose(parameter.asnumpy(), weight * (1 - 0.01 * decay), rtol=1e-6)


def test_rate_rises_in_equal_steps_to_the_peak_then_falls_along_half_a_cosine():
    found = rates(0.2, 20, 4, 0.1)
    np.testing.assert_allclose(found[:4], [0.05, 0.1, 0.15, 0.2], rtol=1e-5)
    cosine = [0.2 * (0.1 + 0.9 * (1 + math.cos(math.pi * done / 16)) / 2) for done in range(17)]
    np.testing.assert_allclose(found[4:21], cosine, rtol=1e-5)


@pytest.mark.parametrize('warmup', [0, 1, 7])
def test_rate_starts_above_zero_peaks_once_and_ends_at_its_share(warmup):
    found = rates(0.2, 10, warmup, 0.25)
    assert found[0] == pytest.approx(0.2 / max(warmup, 1), rel=1e-5) and max(found) == pytest.approx(0.2, rel=1e-5)
    np.testing.assert_allclose(found[10:], 0.05, rtol=1e-5)


def test_rate_of_a_run_all_warm_up_or_of_one_step_is_finite():
    for total, warmup in ((1, 0), (1, 1), (5, 5)):
        assert all(0 < rate <= 0.2000001 for rate in rates(0.2, total, warmup, 0.1))


@pytest.fixture(scope='module')
def network(make_recipe, vocabulary):
    recipe = make_recipe(model={'image': {'pool': 'class'}})
    return HierarchicalLoss(build_model(recipe, vocabulary), (1, 1))


def test_only_matrices_decay_and_embeddings_by_choice(network):
    names = {p.name for p in network.trainable_params()}
    vectors = {p.name for p in network.trainable_params() if p.ndim == 1}
    vectors |= {name for name in names if name.endswith('directions.table')}  # biases, one for each head
    embeddings = {'text_tower.encoder.embedding', 'text_tower.encoder.position', 'image_tower.encoder.position',
                  'image_tower.encoder.class_embedding'}
    assert 'log_scale' in vectors and embeddings < names
    assert {p.name for p in network.trainable_params() if decays_weight(p)} == names - vectors - embeddings
    assert {p.name for p in network.trainable_params() if decays_weight(p, embeddings=True)} == names - vectors


def test_recipe_reaches_the_optimizer(network, make_recipe):
    train = make_recipe(train={'weight_decay': 0.3, 'lr': 0.02, 'warmup': 0.5, 'layer_decay': 0.5}).train
    built = build_optimizer(network, train, 8)
    for parameter, decay in zip(built.parameters, built.decays):
        assert float(decay) == pytest.approx(0.3 if decays_weight(parameter) else 0)
    assert [p.name for p in built.parameters] == [p.name for p in network.trainable_params()]
    assert float(built.learning_rate()) == pytest.approx(0.02 / 4)
    assert {float(rate) for rate in built.rates} == {0.25, 0.5, 1.0}
    assert not any(moment.requires_grad for moment in (*built.moment1, *built.moment2, built.step))


def test_a_layer_further_from_the_output_learns_slower():
    names = {'image_tower.encoder.class_embedding': 3, 'image_tower.encoder.stem.project.weight': 3,
             'image_tower.encoder.input_norm.gamma': 3, 'image_tower.encoder.blocks.0.mlp.up.weight': 2,
             'image_tower.encoder.blocks.1.mlp.up.lora_up': 1, 'image_tower.encoder.norm.gamma': 0,
             'image_tower.to_global.linear.weight': 0, 'text_tower.encoder.embedding': 2,
             'text_tower.encoder.blocks.0.attention.out.bias': 1, 'log_scale': 0, 'fusion.blocks.0.mlp.up.weight': 0}
    assert layer_rates(list(names), 0.5) == [0.5 ** layers for layers in names.values()]
    assert layer_rates(list(names), 1.0) == [1.0] * len(names)


def test_each_parameter_has_its_share_of_the_rate():
    shares, betas = [1.0, 0.5, 0.0], (0.9, 0.98)
    whole, weights = optimizer(constant(0.01), betas, 1e-8)
    adamw = AdamW([Parameter(p.copy(), name=p.name) for p in whole.parameters], DECAYS, constant(0.01), betas, 1e-8,
                  shares)
    gradients = tuple(Tensor(np.ones(shape), ms.float32) for shape in SHAPES)
    for cell in (whole, adamw):
        cell(gradients, ONE)
    for parameter, other, weight, share in zip(adamw.parameters, whole.parameters, weights, shares):
        np.testing.assert_allclose(parameter.asnumpy() - weight, share * (other.asnumpy() - weight), atol=1e-6)
