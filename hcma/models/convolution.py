"""Convolutions in two lowerings with equal results: gather + matmul for CPU, ``nn.Conv2d``'s operator for Ascend.

On CPU MindSpore's Conv2d is 20 to 50 times slower than collecting each output's 3 x 3 neighbourhood with a
precomputed index and multiplying once. Pictures travel as (B, height * width, channels).
"""
import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hcma import backend
from hcma.kernels import cells as compiled
from hcma.models.layers import Affine

KERNEL = 3


def neighbourhood_index(pixels, stride):
    """Which inputs each output of a padded 3 x 3 convolution sees, and which outputs each input reaches.

    Of pictures of ``pixels`` (height, width) with N inputs and M outputs, ``gather`` (M, 9) has input positions, and
    ``scatter`` (N, m) positions in the flattened ``gather``. The position one past the end means the zero padding.
    """
    height, width = pixels
    out_height, out_width = ((side - 1) // stride + 1 for side in pixels)
    rows, columns, dy, dx = np.meshgrid(*(np.arange(n) for n in (out_height, out_width, KERNEL, KERNEL)), indexing='ij')
    y, x = rows * stride + dy - 1, columns * stride + dx - 1
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    gather = np.where(inside, y * width + x, height * width).reshape(-1, KERNEL * KERNEL)
    users = [np.flatnonzero(gather.reshape(-1) == position) for position in range(height * width)]
    scatter = np.full((height * width, max(map(len, users))), gather.size)
    for position, used_by in enumerate(users):
        scatter[position, :len(used_by)] = used_by
    return gather.astype(np.int32), scatter.astype(np.int32)


class GatherSum(nn.Cell):
    """The rows of ``x`` (B, N, C) in ``places`` (M, S), where N means none, summed over S: (B, M, C)."""

    def construct(self, x_BNC, places_MS):
        batch, _, channels = x_BNC.shape
        padded = ops.concat((x_BNC, ops.zeros((batch, 1, channels), x_BNC.dtype)), 1)
        # without a loop, which would not compile inside a bprop
        return ops.gather(padded, places_MS.reshape(-1), 1).reshape(batch, *places_MS.shape, channels).sum(2)


class Neighbourhoods(nn.Cell):
    """(B, N, C) to (B, M, 9 C). Its own backward gathers with the transposed index and sums."""

    def __init__(self, pixels, stride):
        super().__init__()
        gather, scatter = neighbourhood_index(pixels, stride)
        self.gather_index, self.scatter_index = Tensor(gather.reshape(-1, 1)), Tensor(scatter)
        self.gather_sum = compiled.GatherSum() if backend.compiles_kernels() else GatherSum()

    def construct(self, x):
        return self.gather_sum(x, self.gather_index).reshape(x.shape[0], -1, KERNEL * KERNEL * x.shape[2])

    def bprop(self, x, out, dout):
        return (self.gather_sum(dout.reshape(x.shape[0], -1, x.shape[2]), self.scatter_index),)


class Convolution(nn.Cell):
    """A padded 3 x 3 convolution of pictures of ``pixels`` (height, width), (B, N, inputs) to (B, M, outputs).

    With ``relu`` what is negative is zero. Weights are float32; the convolution is made, and given, in the type
    ``compute``.
    """
    compute = ms.float32

    def __init__(self, pixels, inputs, outputs, stride, init, relu=False):
        super().__init__()
        self.pixels, self.inputs, self.outputs = pixels, inputs, outputs
        fan_in = KERNEL * KERNEL * inputs
        self.weight = init.normal(fan_in, outputs, std=math.sqrt(2 / fan_in))
        self.bias = Parameter(Tensor(np.zeros(outputs, np.float32)))
        self.relu, self.native = relu, backend.prefers_native_kernels()
        if self.native:
            self.convolve = ops.Conv2D(outputs, KERNEL, pad_mode='pad', pad=1, stride=stride)
        else:
            self.neighbourhoods, self.affine = Neighbourhoods(pixels, stride), Affine(transposed=False, relu=relu)

    def construct(self, x):
        batch, x = x.shape[0], ops.cast(x, self.compute)
        weight, bias = ops.cast(self.weight, self.compute), ops.cast(self.bias, self.compute)
        if self.native:
            picture = x.transpose(0, 2, 1).reshape(batch, self.inputs, *self.pixels)
            kernel = weight.reshape(KERNEL, KERNEL, self.inputs, self.outputs).transpose(3, 2, 0, 1)
            y = self.convolve(picture, kernel).reshape(batch, self.outputs, -1).transpose(0, 2, 1)
            return ops.relu(y + bias) if self.relu else y + bias
        seen = self.neighbourhoods(x).reshape(-1, KERNEL * KERNEL * self.inputs)
        return self.affine(seen, weight, bias).reshape(batch, -1, self.outputs)
