"""Small layers, written with the operations that MindSpore runs fast on a CPU as well as on Ascend."""
import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hcma import backend

NORM_EPS = 1e-12


def normalise(x):
    """Rows of ``x`` (..., D) at length 1, in float32; a row of zeros stays zero, with a finite gradient.

    Written out because ``ops.L2Normalize`` is thousands of times slower on CPU and a division by ``ops.norm``
    is NaN for a zero row.
    """
    x = ops.cast(x, ms.float32)
    return x * ops.rsqrt((x * x).sum(-1, keepdims=True) + NORM_EPS)


class Init:
    """Draws initial weights from one seeded generator, so that a seed fixes the whole model."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def normal(self, *shape, std=0.02):
        """A trainable float32 parameter with entries of standard deviation ``std``."""
        return Parameter(Tensor(self.generator.standard_normal(shape, np.float32) * np.float32(std)))


class Linear(nn.Cell):
    """``x`` (N, inputs) to (N, outputs): a 2-D product and a bias (``nn.Dense`` on 3-D inputs is slower on CPU)."""

    def __init__(self, inputs, outputs, init, bias=True, std=None):
        super().__init__()
        std = 1 / math.sqrt(3 * inputs) if std is None else std
        self.weight = init.normal(outputs, inputs, std=std)
        self.bias = Parameter(Tensor(np.zeros(outputs, np.float32))) if bias else None
        self.product = ops.MatMul(transpose_b=True)

    def construct(self, x):
        y = self.product(x, self.weight)
        return y if self.bias is None else y + self.bias


class LayerNorm(nn.Cell):
    """Layer normalisation of the last axis (width ``width``), in float32, gain ``gamma`` and shift ``beta``."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gamma = Parameter(Tensor(np.ones(width, np.float32)))
        self.beta = Parameter(Tensor(np.zeros(width, np.float32)))
        self.norm = NativeNorm(eps) if backend.prefers_native_kernels() else ProductNorm(width, eps)

    def construct(self, x):
        rows = ops.cast(x, ms.float32).reshape(-1, x.shape[-1])
        return self.norm(rows, self.gamma, self.beta).reshape(x.shape)


class NativeNorm(nn.Cell):
    """MindSpore's own layer norm of rows (N, D)."""

    def __init__(self, eps):
        super().__init__()
        self.norm = ops.LayerNorm(begin_norm_axis=-1, begin_params_axis=-1, epsilon=eps)

    def construct(self, x_ND, gamma, beta):
        return self.norm(x_ND, gamma, beta)[0]


class ProductNorm(NativeNorm):
    """The same with a backward pass of matrix products, which on CPU takes half as long as the operator's own."""

    def __init__(self, width, eps):
        super().__init__(eps)
        self.eps = eps
        self.mean = Tensor(np.full((width, width), 1 / width, np.float32))  # x @ mean: the row's mean in every column
        self.product = ops.MatMul()

    def bprop(self, x_ND, gamma, beta, out, dout):
        centred = x_ND - self.product(x_ND, self.mean)
        inverse = ops.rsqrt(self.product(centred * centred, self.mean) + self.eps)
        unit, scaled = centred * inverse, dout * gamma
        dx = (scaled - self.product(scaled, self.mean) - unit * self.product(scaled * unit, self.mean)) * inverse
        return dx, (dout * unit).sum(0), dout.sum(0)


class QuickGELU(nn.Cell):
    """``x * sigmoid(1.702 x)``, the activation of OpenAI's CLIP."""

    def construct(self, x):
        return x * ops.sigmoid(1.702 * x)


class GELU(nn.Cell):
    """The exact GELU, with the error function."""

    def construct(self, x):
        return ops.gelu(x, approximate='none')


ACTIVATIONS = {'relu': nn.ReLU, 'quick_gelu': QuickGELU, 'gelu': GELU}
