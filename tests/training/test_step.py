"""The step: an overflow changes nothing but the loss scale, clipping acts once, temperatures stay in range."""
import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore.train.loss_scale_manager import DynamicLossScaleManager

from hcma.models.hcma import HCMA
from hcma.training.optimizer import AdamW, WarmupCosine
from hcma.training.step import HCMATrainStep
from hcma.training.trainer import build_step

RATE = 0.1
MOMENTUM = 0.9
# What an overflow may change: the loss scale, and when it last changed.
SCALE = {'loss_scale', 'current_iterator_step', 'last_overflow_iterator_step'}


class Scale(nn.Cell):
    """What the step asks of a model: levels, and log-scales that it can clamp."""
    levels = ('only',)
    clamp_scales = HCMA.clamp_scales
    max_log_scale = math.log(100)

    def __init__(self, start):
        super().__init__()
        self.log_scale = Parameter(Tensor([start], ms.float32))


class Planned(nn.Cell):
    """A network whose gradients are its inputs: the loss is their product with the weights."""
    part_names = ('loss_only',)

    def __init__(self, log_scale):
        super().__init__()
        self.model = Scale(log_scale)
        self.weight = Parameter(Tensor(np.linspace(-1, 1, 6).reshape(2, 3), ms.float32))

    def construct(self, gradient, scale_gradient):
        loss = (self.weight * gradient).sum() + (self.model.log_scale * scale_gradient).sum()
        return loss, loss.reshape(1)


def planned(scale=2.0 ** 10, window=1000, clip=1e9, log_scale=1.0):
    network = Planned(log_scale)
    parameters = network.trainable_params()
    decays = [0.5 * (parameter.ndim > 1) for parameter in parameters]
    adamw = AdamW(parameters, decays, WarmupCosine(RATE, 10, 5, 0.0), (MOMENTUM, 0.98), 1e-8)
    return HCMATrainStep(network, adamw, DynamicLossScaleManager(scale, 2, window), clip).set_train()


def take(step, gradient=1.0, scale_gradient=0.0):
    """One step with all entries of the weight's gradient equal; returns its metrics by name."""
    _, row = step(Tensor(np.full((2, 3), gradient), ms.float32), Tensor([scale_gradient], ms.float32))
    return dict(zip(step.metric_names, row.asnumpy().tolist()))


def state(step):
    return {parameter.name: parameter.asnumpy().copy() for parameter in step.get_parameters()}


def changed(before, after):
    return {name for name in before if not np.array_equal(before[name], after[name])}


def moments(step):
    return {moment.name: moment.asnumpy() for moment in step.optimizer.moment1}


# ---- overflow and the loss scale

@pytest.mark.parametrize('scale, gradient', [(2.0 ** 10, np.inf), (2.0 ** 10, np.nan), (2.0 ** 10, 3e38),
                                             (2.0 ** 40, 1e8)])
def test_overflow_leaves_everything_and_halves_the_scale(scale, gradient):
    step = planned(scale)
    take(step, 1e-3, 1e-3)
    before = state(step)
    metrics = take(step, gradient)
    after = state(step)
    assert changed(before, after) == SCALE and after['loss_scale'] == scale / 2
    assert metrics['overflow'] == 1 and metrics['loss_scale'] == scale
    assert take(step, 1e-3)['lr'] == pytest.approx(metrics['lr']) == pytest.approx(RATE * 2 / 5)


def test_one_bad_entry_among_many_good_is_an_overflow():
    step, gradient = planned(), np.ones((2, 3))
    gradient[1, 2] = np.nan
    before = step.network.weight.asnumpy().copy()
    step(Tensor(gradient, ms.float32), Tensor([1.0], ms.float32))
    assert np.array_equal(step.network.weight.asnumpy(), before) and int(step.optimizer.step) == 0


def test_scale_doubles_after_a_window_of_good_steps_counted_anew_after_an_overflow():
    step = planned(scale=8.0, window=3)
    gradients = [1, 1, 1, 1, 1, np.inf, 1, 1, 1, 1]
    assert [take(step, gradient)['loss_scale'] for gradient in gradients] == [8, 8, 8, 16, 16, 16, 8, 8, 8, 16]


def test_scale_never_falls_below_one():
    step = planned(scale=2.0)
    assert [take(step, np.nan)['loss_scale'] for _ in range(4)] == [2, 1, 1, 1]


@pytest.mark.parametrize('gradient', [1e-3, 8.0])
def test_scale_that_doubles_at_every_step_never_becomes_infinite(gradient):
    step = planned(scale=2.0 ** 38, window=1)
    rows = [take(step, gradient) for _ in range(9)]
    assert max(row['loss_scale'] for row in rows) <= 2.0 ** 40
    assert any(row['overflow'] == 0 for row in rows[-2:])
    for row in rows:
        assert row['overflow'] or row['grad_norm'] == pytest.approx(gradient * math.sqrt(6), rel=1e-5)


# ---- clipping

def test_gradients_are_clipped_once_by_their_global_norm_after_unscaling():
    step = planned(clip=2.0)
    metrics = take(step, 3.0, 4.0)
    norm = math.sqrt(6 * 3 ** 2 + 4 ** 2)
    assert metrics['grad_norm'] == pytest.approx(norm, rel=1e-6)
    found = moments(step)
    np.testing.assert_allclose(found['moment1.weight'], (1 - MOMENTUM) * 3 * 2 / norm, rtol=1e-5)
    np.testing.assert_allclose(found['moment1.model.log_scale'], (1 - MOMENTUM) * 4 * 2 / norm, rtol=1e-5)


def test_gradients_below_the_limit_are_left_alone():
    step = planned(clip=100.0)
    take(step, 3.0, 4.0)
    np.testing.assert_allclose(moments(step)['moment1.weight'], (1 - MOMENTUM) * 3, rtol=1e-6)


# ---- temperatures

@pytest.mark.parametrize('start, gradient, expected', [(math.log(100) - 0.001, -1.0, math.log(100)),
                                                       (0.001, 1.0, 0.0)])
def test_temperatures_are_clamped_after_the_update_and_come_back(start, gradient, expected):
    step = planned(log_scale=start)
    for _ in range(3):
        take(step, 0.0, gradient)
        assert step.network.model.log_scale.asnumpy() == pytest.approx([expected], rel=1e-6)
    for _ in range(5):
        take(step, 0.0, -gradient)
    assert abs(step.network.model.log_scale.asnumpy()[0] - expected) > 0.05


def test_metrics_describe_the_step_that_was_taken():
    """Loss, temperature scale and rate are those that the gradient was taken with, not those after the update."""
    step = planned(log_scale=1.0)
    for number in range(2):
        before = step.network.model.log_scale.asnumpy().item()
        metrics = take(step, 1.0, 5.0)
        assert metrics['scale_only'] == pytest.approx(math.exp(before), rel=1e-6)
        assert metrics['loss'] == metrics['loss_only'] and metrics['overflow'] == 0
        assert metrics['lr'] == pytest.approx(RATE * (number + 1) / 5)


# ---- the whole network

def trained(recipe, vocabulary, batches):
    """The step after ``batches``, what each returned, and the weights at the end."""
    step = build_step(recipe, vocabulary, 10)
    rows = [step(*batch)[1].asnumpy() for batch in batches]
    return step, rows, {p.name: p.asnumpy() for p in step.network.model.get_parameters()}


def test_loss_scale_does_not_change_the_update(make_recipe, make_batch, vocabulary):
    recipes = [make_recipe(train={'loss_scale': {'initial': scale}}) for scale in (1, 2 ** 16)]
    one, other = (state(trained(recipe, vocabulary, [make_batch(recipe)])[0]) for recipe in recipes)
    assert changed(one, other) == {'loss_scale'}


CLIP = {'model': {'image': {'stem': 'patchify', 'patch_size': 4, 'pool': 'class', 'activation': 'quick_gelu'},
                  'text': {'causal': True, 'pool': 'end', 'activation': 'quick_gelu'}},
        'loss': {'levels': ['sentence_global']}}


@pytest.fixture(scope='module', params=[{}, CLIP], ids=['tiny', 'clip'])
def pynative(request, make_recipe, make_batch, vocabulary):
    """One step in PYNATIVE: the recipe, the batch, the step cell, its metrics and the weights after it."""
    # a large eps: Adam's first step is else the sign of gradients, some of which are zero but for rounding
    recipe = make_recipe(train={'eps': 1e-3}, **request.param)
    batch = make_batch(recipe)
    step, rows, weights = trained(recipe, vocabulary, [batch])
    return recipe, batch, step, rows[0], weights


def test_gradients_reach_every_trainable_parameter(pynative):
    _, _, step, _, _ = pynative
    assert [name for name, moment in moments(step).items() if not moment.any()] == []
    assert len(moments(step)) == len(list(step.network.model.get_parameters()))


@pytest.mark.graph
def test_graph_equals_pynative_and_compiles_once(pynative, make_batch, vocabulary):
    recipe, batch, _, expected_row, expected = pynative
    step, (row,), weights = trained(recipe, vocabulary, [batch])
    np.testing.assert_allclose(row, expected_row, rtol=1e-5)
    for name, weight in weights.items():
        np.testing.assert_allclose(weight, expected[name], atol=1e-5)
    for seed in (1, 2):
        step(*make_batch(recipe, seed=seed))
    assert len(step.compile_cache) == 1 and int(step.optimizer.step) == 3


@pytest.mark.parametrize('initial', [0.01, 0.05, 1.0])
def test_frozen_temperature_is_neither_trained_nor_changed_by_the_clamp(make_recipe, vocabulary, initial):
    step = build_step(make_recipe(loss={'temperature': {'initial': initial, 'learnable': False}}), vocabulary, 10)
    model = step.network.model
    model.clamp_scales()
    assert np.array_equal(model.log_scale.asnumpy(), np.full(2, -math.log(initial), np.float32))
    assert 'log_scale' not in {parameter.name for parameter in step.optimizer.parameters}


def test_infinite_weight_is_an_overflow_of_the_whole_network(make_recipe, make_batch, vocabulary):
    step = build_step(make_recipe(), vocabulary, 10)
    step.network.model.image_tower.to_global.linear.weight.set_data(Tensor(np.full((16, 16), np.inf), ms.float32))
    before = state(step)
    metrics = dict(zip(step.metric_names, step(*make_batch(make_recipe()))[1].asnumpy()))
    after = state(step)
    assert metrics['overflow'] == 1 and after['loss_scale'] == before['loss_scale'] / 2
    assert changed(before, after) == SCALE
