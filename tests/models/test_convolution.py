"""The gathered convolution is a convolution, forward and backward, and equal to the operator used on Ascend."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma import backend
from hcma.models.convolution import Convolution
from hcma.models.layers import Init

INPUTS, OUTPUTS = 2, 3
SHAPES = [(4, 1), (4, 2), (5, 1), (5, 2), (1, 2)]


def reference(x, weight, bias, side, stride):
    """A zero-padded 3 x 3 convolution in float64: x (B, side**2, inputs), weight (9 inputs, outputs)."""
    picture = np.pad(x.reshape(-1, side, side, INPUTS), ((0, 0), (1, 1), (1, 1), (0, 0)))
    starts = range(0, side, stride)
    windows = [picture[:, y:y + 3, z:z + 3].reshape(len(x), -1) for y in starts for z in starts]
    return np.stack(windows, 1) @ weight + bias


def layer(side, stride):
    convolution = Convolution(side, INPUTS, OUTPUTS, stride, Init(1))
    convolution.bias.set_data(Tensor(np.arange(OUTPUTS), ms.float32))
    return convolution


def drawn(side, stride):
    """An input, and the weights of every output in the scalar that is differentiated."""
    rng = np.random.default_rng(side + stride)
    out = ((side + stride - 1) // stride) ** 2
    return rng.normal(size=(2, side * side, INPUTS)), rng.normal(size=(2, out, OUTPUTS))


@pytest.mark.parametrize('side, stride', SHAPES)
def test_forward_is_the_reference(side, stride):
    convolution, (x, _) = layer(side, stride), drawn(side, stride)
    expected = reference(x, convolution.weight.asnumpy(), convolution.bias.asnumpy(), side, stride)
    np.testing.assert_allclose(convolution(Tensor(x, ms.float32)).asnumpy(), expected, atol=1e-5)


@pytest.mark.parametrize('side, stride', SHAPES)
def test_own_backward_is_the_numerical_gradient(side, stride, numerical_gradient):
    convolution, (x, toward) = layer(side, stride), drawn(side, stride)
    weight, bias = (p.asnumpy().astype(np.float64) for p in (convolution.weight, convolution.bias))
    goal = Tensor(toward, ms.float32)
    gradient = ms.grad(lambda x: (convolution(x) * goal).sum(), 0, (convolution.weight, convolution.bias))
    dx, (dweight, dbias) = gradient(Tensor(x, ms.float32))
    for found, function, at in [
            (dx, lambda x: (reference(x, weight, bias, side, stride) * toward).sum(), x),
            (dweight, lambda w: (reference(x, w, bias, side, stride) * toward).sum(), weight),
            (dbias, lambda b: (reference(x, weight, b, side, stride) * toward).sum(), bias)]:
        np.testing.assert_allclose(found.asnumpy(), numerical_gradient(function, at), atol=1e-4)


def test_gathered_equals_the_native_operator(monkeypatch):
    gathered, (x, toward) = layer(5, 2), drawn(5, 2)
    monkeypatch.setattr(backend, 'prefers_native_kernels', lambda: True)
    native = layer(5, 2)
    assert native.native and not gathered.native
    x, goal = Tensor(x, ms.float32), Tensor(toward, ms.float32)
    np.testing.assert_allclose(gathered(x).asnumpy(), native(x).asnumpy(), atol=1e-5)
    for one, other in zip(*(_gradients(convolution, x, goal) for convolution in (gathered, native))):
        np.testing.assert_allclose(one, other, atol=1e-5)


def _gradients(convolution, x, goal):
    dx, dweight = ms.grad(lambda x: (convolution(x) * goal).sum(), 0, convolution.weight)(x)
    return dx.asnumpy(), dweight.asnumpy()
