"""Whatever comes, a step ends finite or is skipped and named; never is there a NaN that nothing tells of."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train.loss_scale_manager import DynamicLossScaleManager

from hcma.losses.contrastive import info_nce, sigmoid_loss
from hcma.models.layers import Init, normalise
from hcma.models.transformer import SelfAttention
from hcma.training.diagnosis import NonFinite, first_nonfinite
from hcma.training.optimizer import AdamW, WarmupCosine
from hcma.training.step import HCMATrainStep
from hcma.training.trainer import build_step

FP16 = dict.fromkeys(('image', 'text', 'loss'), 'fp16')
SHALLOW = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
BATCH = 6


@pytest.fixture(params=['fp32', 'fp16'])
def precision(request):
    return dict.fromkeys(FP16, request.param)


@pytest.fixture
def make_step(make_recipe, make_batch, vocabulary):
    """``make_step(**sections)``: a step, and a batch for it."""
    def make(**sections):
        train = {'loss_scale': {'initial': 256}, **sections.pop('train', {})}
        recipe = make_recipe(**{'model': SHALLOW, **sections}, train=train)
        return build_step(recipe, vocabulary, 10), list(make_batch(recipe, BATCH))
    return make


def weight_of(step, name):
    (found,) = (parameter for parameter in step.get_parameters() if parameter.name == name)
    return found


def state(step):
    return {parameter.name: parameter.asnumpy().copy() for parameter in step.get_parameters()}


def take(step, batch):
    return dict(zip(step.metric_names, step(*batch)[1].asnumpy().tolist()))


def assert_finite(step):
    assert NonFinite(step.get_parameters()).names() == []


def test_gradients_that_overflow_fp16_skip_the_step_until_the_scale_fits(make_step):
    step, batch = make_step(precision=FP16)
    take(step, batch)
    weight_of(step, 'loss_scale').set_data(Tensor(2.0 ** 30, ms.float32))
    before = state(step)
    for halvings in range(40):
        metrics = take(step, batch)
        if not metrics['overflow']:
            break
        after = state(step)
        changed = {name for name in before if not np.array_equal(before[name], after[name])}
        assert changed == {'loss_scale', 'current_iterator_step', 'last_overflow_iterator_step'}
    assert 3 <= halvings < 30 and metrics['loss_scale'] == 2.0 ** (30 - halvings)
    assert metrics['lr'] > 0 and int(step.optimizer.step) == 2
    assert_finite(step)


@pytest.mark.parametrize('weight', ['image_tower.to_global.linear.weight', 'text_tower.to_word.linear.weight'])
def test_features_of_zeros_leave_the_step_finite(weight, precision, make_step):
    step, batch = make_step(precision=precision)
    found = weight_of(step, weight)
    found.set_data(Tensor(np.zeros(found.shape, np.float32)))
    assert take(step, batch)['overflow'] == 0
    assert_finite(step)


def test_a_row_of_zeros_is_normalised_to_zeros_with_a_gradient_of_zeros():
    x = Tensor(np.array([[0, 0], [3, -4]]), ms.float16)
    np.testing.assert_allclose(normalise(x).asnumpy(), [[0, 0], [0.6, -0.8]], rtol=1e-6)
    gradient = ms.grad(lambda x: (normalise(x) * Tensor([1.0, 0.0])).sum())(x).asnumpy()
    np.testing.assert_allclose(gradient, [[0, 0], [16 / 125, 12 / 125]], rtol=1e-3)


@pytest.mark.parametrize('pool', ['mean', 'end'])
def test_a_row_of_padding_only_leaves_the_step_finite(pool, precision, make_step):
    step, batch = make_step(model={'text': {'pool': pool, 'causal': True}, 'fusion': {'heads': 2}}, precision=precision)
    batch[2] = Tensor([0, 2] + [5] * (BATCH - 2), ms.int32)  # nothing at all, and begin and end alone
    assert take(step, batch)['overflow'] == 0
    assert_finite(step)


@pytest.mark.parametrize('loss', [info_nce, sigmoid_loss])
@pytest.mark.parametrize('sign', [1, -1])
def test_logits_of_ten_thousand_are_finite_with_the_gradient_of_the_reference(loss, sign):
    positive = np.eye(4, dtype=np.float32)
    score = sign * 1e4 * (2 * positive - 1)
    value, gradient = ms.value_and_grad(lambda score: loss(score, Tensor(positive)))(Tensor(score))
    assert float(value) == pytest.approx(0 if sign > 0 else 2e4 if loss is info_nce else 4e4, rel=1e-4)
    assert np.isfinite(gradient.asnumpy()).all() and (np.abs(gradient.asnumpy()).max() > 0.1) == (sign < 0)


def test_attention_scores_beyond_the_end_of_float16_are_finite():
    attention = SelfAttention(16, 2, Init(0))
    for layer in (attention.query_key_value, attention.out):
        layer.compute = ms.float16
    attention.query_key_value.weight.set_data(attention.query_key_value.weight * 1e3)
    x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
    query, key, _ = np.split(x @ attention.query_key_value.weight.asnumpy().T, 3, -1)
    assert np.abs(query[..., :8] @ key[..., :8].swapaxes(1, 2)).max() > 65504  # what a product in float16 would make
    out, gradient = ms.value_and_grad(lambda x: attention(x, None).sum())(Tensor(x))
    assert np.isfinite(out.asnumpy()) and np.isfinite(gradient.asnumpy()).all()


@pytest.mark.parametrize('start', [10.0, -10.0])
def test_a_temperature_pushed_far_outside_comes_back_to_its_clamp(start, precision, make_step):
    step, batch = make_step(precision=precision)
    weight_of(step, 'log_scale').set_data(Tensor([start] * 2, ms.float32))
    while take(step, batch)['overflow']:  # in fp16, until the scale fits
        assert float(step.loss_scale.asnumpy()) > 1
    log_scale = step.network.model.log_scale.asnumpy()
    np.testing.assert_allclose(log_scale, np.log(100) if start > 0 else 0, rtol=1e-6)
    assert_finite(step)


@pytest.mark.parametrize('sections', [{}, {'loss': {'levels': ['word_patch']}},
                                      {'loss': {'levels': ['word_patch'], 'score': 'attention'}},
                                      {'train': {'image_micro_batch': 4}}], ids=['both', 'max', 'attention', 'staged'])
def test_one_pixel_that_is_nan_skips_the_step_and_is_named(sections, precision, make_step):
    """Pictures are bytes, so it is put where pixels become numbers: in the normalisation of one column."""
    step, batch = make_step(**sections, precision=precision)
    pixels = step.network.model.image_tower.encoder.pixels
    pixels.shift = Tensor(np.where(np.arange(pixels.shift.size) == 1, np.float32(np.nan), np.float32(0)))
    before = state(step)
    assert take(step, batch)['overflow'] == 1
    after = state(step)
    assert {name for name in before if not np.array_equal(before[name], after[name])} == {
        'loss_scale', 'current_iterator_step', 'last_overflow_iterator_step'}
    found = first_nonfinite(step, NonFinite(step.network.model.get_parameters()), batch)
    assert found == 'the output of image_tower.encoder.pixels'


def test_a_patch_that_is_nan_is_not_lost_in_a_maximum(make_step):
    step, batch = make_step(loss={'levels': ['word_patch']})
    position = weight_of(step, 'image_tower.encoder.position').asnumpy()
    position[0, 2] = np.nan
    weight_of(step, 'image_tower.encoder.position').set_data(Tensor(position))
    assert take(step, batch)['overflow'] == 1
    found = first_nonfinite(step, NonFinite(step.network.model.get_parameters()), batch)
    assert found == 'the weight image_tower.encoder.position'


class Root(nn.Cell):
    """A loss of 0 whose gradient by the second weight is infinite, or so large that its square is."""
    part_names = ()

    def __init__(self, factor, power):
        super().__init__()
        self.model = nn.Cell()
        self.factor, self.power = factor, power
        self.plain, self.root = (Parameter(Tensor([0.0, 0.0], ms.float32)) for _ in range(2))

    def construct(self):
        loss = self.plain.sum() + (self.factor * ops.pow(self.root, self.power)).sum()
        return loss, ops.zeros((0,), ms.float32)


@pytest.mark.parametrize('factor, power, expected', [(1.0, 0.5, 'the gradient of root'),
                                                     (1e25, 1.0, 'the norm of the gradients')])
def test_a_gradient_that_is_not_finite_is_named_though_the_loss_is(factor, power, expected):
    network = Root(factor, power)
    adamw = AdamW(network.trainable_params(), [0.0, 0.0], WarmupCosine(0.1, 10, 5, 0.0), (0.9, 0.98), 1e-8)
    step = HCMATrainStep(network, adamw, DynamicLossScaleManager(1.0, 2, 100), 1.0)
    assert first_nonfinite(step, NonFinite(network.trainable_params()), ()).startswith(expected)


def test_names_are_those_of_numpy(make_step):
    step, _ = make_step()
    weights = list(step.network.model.get_parameters())
    for place, value in ((0, np.nan), (3, -np.inf)):
        array = weights[place].asnumpy().copy()
        array.reshape(-1)[-1] = value
        weights[place].set_data(Tensor(array))
    assert NonFinite(weights).names() == [weights[0].name, weights[3].name]
