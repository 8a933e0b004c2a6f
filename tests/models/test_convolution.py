"""The gathered convolution is a convolution, forward and backward, and equal to the operator used on Ascend."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma import backend
from hcma.models.convolution import Convolution
from hcma.models.layers import Init

INPUTS, OUTPUTS = 2, 3
SHAPES = [((4, 4), 1), ((4, 6), 2), ((5, 3), 1), ((5, 5), 2), ((1, 1), 2)]


def reference(x, weight, bias, pixels, stride):
    """A zero-padded 3 x 3 convolution in float64: x (B, height * width, inputs), weight (9 inputs, outputs)."""
    picture = np.pad(x.reshape(-1, *pixels, INPUTS), ((0, 0), (1, 1), (1, 1), (0, 0)))
    tops, lefts = (range(0, side, stride) for side in pixels)
    windows = [picture[:, y:y + 3, z:z + 3].reshape(len(x), -1) for y in tops for z in lefts]
    return np.stack(windows, 1) @ weight + bias


def layer(pixels, stride):
    convolution = Convolution(pixels, INPUTS, OUTPUTS, stride, Init(1))
    convolution.bias.set_data(Tensor(np.arange(OUTPUTS), ms.float32))
    return convolution


def drawn(pixels, stride):
    """An input, and the weights of every output in the scalar that is differentiated."""
    rng = np.random.default_rng(sum(pixels) + stride)
    out = np.prod([(side + stride - 1) // stride for side in pixels])
    return rng.normal(size=(2, np.prod(pixels), INPUTS)), rng.normal(size=(2, out, OUTPUTS))


@pytest.mark.parametrize('pixels, stride', SHAPES)
def test_forward_is_the_reference(pixels, stride):
    convolution, (x, _) = layer(pixels, stride), drawn(pixels, stride)
    expected = reference(x, convolution.weight.asnumpy(), convolution.bias.asnumpy(), pixels, stride)
    np.testing.assert_allclose(convolution(Tensor(x, ms.float32)).asnumpy(), expected, atol=1e-5)


@pytest.mark.parametrize('pixels, stride', SHAPES)
def test_own_backward_is_the_numerical_gradient(pixels, stride, numerical_gradient):
    convolution, (x, toward) = layer(pixels, stride), drawn(pixels, stride)
    weight, bias = (p.asnumpy().astype(np.float64) for p in (convolution.weight, convolution.bias))
    goal = Tensor(toward, ms.float32)
    gradient = ms.grad(lambda x: (convolution(x) * goal).sum(), 0, (convolution.weight, convolution.bias))
    dx, (dweight, dbias) = gradient(Tensor(x, ms.float32))
    for found, function, at in [
            (dx, lambda x: (reference(x, weight, bias, pixels, stride) * toward).sum(), x),
            (dweight, lambda w: (reference(x, w, bias, pixels, stride) * toward).sum(), weight),
            (dbias, lambda b: (reference(x, weight, b, pixels, stride) * toward).sum(), bias)]:
        np.testing.assert_allclose(found.asnumpy(), numerical_gradient(function, at), atol=1e-4)


def test_gathered_equals_the_native_operator(monkeypatch):
    gathered, (x, toward) = layer((5, 4), 2), drawn((5, 4), 2)
    monkeypatch.setattr(backend, 'prefers_native_kernels', lambda: True)
    native = layer((5, 4), 2)
    assert native.native and not gathered.native
    x, goal = Tensor(x, ms.float32), Tensor(toward, ms.float32)
    np.testing.assert_allclose(gathered(x).asnumpy(), native(x).asnumpy(), atol=1e-5)
    for one, other in zip(*(_gradients(convolution, x, goal) for convolution in (gathered, native))):
        np.testing.assert_allclose(one, other, atol=1e-5)


def _gradients(convolution, x, goal):
    dx, dweight = ms.grad(lambda x: (convolution(x) * goal).sum(), 0, convolution.weight)(x)
    return dx.asnumpy(), dweight.asnumpy()
