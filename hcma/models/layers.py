"""Small layers, written with the operations that MindSpore runs fast on a CPU as well as on Ascend."""
import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.ops.auto_generate import ReluGrad, SigmoidGrad

from hcma import backend
from hcma.kernels import cells as compiled

NORM_EPS = 1e-12


def normalise(x):
    """Rows of ``x`` (..., D) at length 1, in float32; a row of zeros (shorter than 1e-6) is zero, as its gradient is.

    Written out because ``ops.L2Normalize`` is thousands of times slower on CPU and a division by ``ops.norm``
    is NaN for a zero row. Without the mask the gradient of a zero row would be a million times what comes in, which
    overflows in float16 whatever the loss scale.
    """
    x = ops.cast(x, ms.float32)
    square = (x * x).sum(-1, keepdims=True)
    return x * (ops.rsqrt(square + NORM_EPS) * ops.cast(square > NORM_EPS, ms.float32))


def weighted_sum(weight_BN, x_BND):
    """The sum over N of rows times weights, (B, D): as a product, which on CPU is several times faster than a sum."""
    return ops.bmm(ops.expand_dims(weight_BN, 1), ops.cast(x_BND, weight_BN.dtype)).reshape(-1, x_BND.shape[2])


def mean_of_words(x_BLD, mask_BL):
    """The mean over the words that the mask keeps, (B, D); zeros for a text without words."""
    return weighted_sum(mask_BL / ops.maximum(mask_BL.sum(1, keepdims=True), 1.0), x_BLD)


class Init:
    """Draws initial weights from one seeded generator, so that a seed fixes the whole model."""

    def __init__(self, seed):
        self.seed = seed
        self.generator = np.random.default_rng(seed)

    def normal(self, *shape, std=0.02):
        """A trainable float32 parameter with entries of standard deviation ``std``."""
        drawn = self.generator.standard_normal(shape, np.float32)
        drawn *= np.float32(std)
        return Parameter(Tensor(drawn))


class Affine(nn.Cell):
    """``x`` (N, inputs) times ``weight`` plus ``bias`` (outputs,), (N, outputs).

    ``weight`` is (outputs, inputs) where it is ``transposed``, else (inputs, outputs). With ``relu`` what is negative
    is zero.
    """

    def __init__(self, transposed, relu=False):
        super().__init__()
        self.transposed, self.relu = transposed, relu
        self.fused = backend.fused_affine(transposed, relu)
        # on CPU BiasAdd takes half as long as +, and its own gradient several times as long as a sum
        self.product, self.add, self.relu_grad = ops.MatMul(transpose_b=transposed), ops.BiasAdd(), ReluGrad()
        self.back, self.across = ops.MatMul(transpose_b=not transposed), ops.MatMul(transpose_a=True)

    def construct(self, x, weight, bias):
        if self.fused is not None and x.dtype == ms.float32:
            return self.fused(x, weight, bias, False, self.transposed)
        y = self.add(self.product(x, weight), bias)
        return ops.relu(y) if self.relu else y

    def bprop(self, x, weight, bias, out, dout):
        slope = self.relu_grad(dout, out) if self.relu else dout
        dweight = self.across(slope, x) if self.transposed else self.across(x, slope)
        return self.back(slope, weight), dweight, slope.sum(0)


class Linear(nn.Cell):
    """``x`` (N, inputs) to (N, outputs): a 2-D product and a bias (``nn.Dense`` on 3-D inputs is slower on CPU).

    Weights are float32; the product is made, and given, in the type ``compute``.
    """
    compute = ms.float32

    def __init__(self, inputs, outputs, init, bias=True, std=None):
        super().__init__()
        std = 1 / math.sqrt(3 * inputs) if std is None else std
        self.weight = init.normal(outputs, inputs, std=std)
        self.bias = Parameter(Tensor(np.zeros(outputs, np.float32))) if bias else None
        self.product, self.affine = ops.MatMul(transpose_b=True), Affine(transposed=True)

    def construct(self, x):
        x, weight = ops.cast(x, self.compute), ops.cast(self.weight, self.compute)
        if self.bias is None:
            return self.product(x, weight)
        return self.affine(x, weight, ops.cast(self.bias, self.compute))


class LayerNorm(nn.Cell):
    """Layer normalisation of the last axis (width ``width``), in float32, gain ``gamma`` and shift ``beta``."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gamma = Parameter(Tensor(np.ones(width, np.float32)))
        self.beta = Parameter(Tensor(np.zeros(width, np.float32)))
        self.norm = compiled.LayerNorm(eps) if backend.compiles_kernels() else ops.LayerNorm(-1, -1, eps)

    def construct(self, x):
        return self.norm(ops.cast(x, ms.float32), self.gamma, self.beta)[0]


def softmax():
    """A cell or operation: the softmax over the last axis of float32 scores."""
    return compiled.Softmax() if backend.compiles_kernels() else ops.Softmax(-1)


class SwapMiddle(nn.Cell):
    """``x`` (B, M, N, D) to (B, N, M, D)."""

    def construct(self, x):
        return x.transpose(0, 2, 1, 3)


def swap_middle():
    """A cell ``SwapMiddle``."""
    return compiled.SwapMiddle() if backend.compiles_kernels() else SwapMiddle()


class QuickGELU(nn.Cell):
    """``x * sigmoid(1.702 x)``, the activation of OpenAI's CLIP. Its backward pass holds ``x`` alone."""

    def __init__(self):
        super().__init__()
        self.sigmoid_grad = SigmoidGrad()

    def construct(self, x):
        return x * ops.sigmoid(1.702 * x)

    def bprop(self, x, out, dout):
        steep = 1.702 * x
        share = ops.sigmoid(steep)
        return (dout * share + self.sigmoid_grad(share, dout * steep),)


class GELU(nn.Cell):
    """The exact GELU, with the error function."""

    def construct(self, x):
        return ops.gelu(x, approximate='none')


class TanhGELU(nn.Cell):
    """The GELU's approximation with a hyperbolic tangent."""

    def construct(self, x):
        return ops.gelu(x, approximate='tanh')


ACTIVATIONS = {'relu': nn.ReLU, 'quick_gelu': QuickGELU, 'gelu': GELU, 'gelu_tanh': TanhGELU}
