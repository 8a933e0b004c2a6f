"""The compiled kernels as cells. Each is a twin of something made of MindSpore's operations, with equal results."""
import functools

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.kernels.build import library


def _kernel(name, shapes, types):
    return ops.Custom(f'{library()}:{name}', shapes, types, func_type='aot')


class BestMatches(nn.Cell):
    """Twin of ``hcma.models.scores.BestMatches`` that never holds the T x L x I x P products."""

    def __init__(self):
        super().__init__()
        self.forward = _kernel('best_matches', _best_matches_shapes, _best_matches_types)
        self.backward = _kernel('best_matches_grad', _first_two, _first_two)

    def construct(self, word_TLE, patch_IPE):
        return self.forward(word_TLE, patch_IPE)

    def bprop(self, word_TLE, patch_IPE, out, dout):
        return self.backward(word_TLE, patch_IPE, out[1], out[3], dout[0], dout[2])


class LayerNorm(nn.Cell):
    """Twin of ``ops.LayerNorm(-1, -1, eps)`` in float32: the rows first, then their means and 1 / deviations."""

    def __init__(self, eps):
        super().__init__()
        self.eps = Tensor([eps], ms.float32)
        self.forward = _kernel('layer_norm', _layer_norm_shapes, _three_floats)
        self.backward = _kernel('layer_norm_grad', _layer_norm_grad_shapes, _three_floats)

    def construct(self, x, gamma, beta):
        rows, mean, inverse = self.forward(x.reshape(-1, x.shape[-1]), gamma, beta, self.eps)
        return rows.reshape(x.shape), mean, inverse

    def bprop(self, x, gamma, beta, out, dout):
        width = x.shape[-1]
        dx, dgamma, dbeta = self.backward(x.reshape(-1, width), gamma, out[1], out[2], dout[0].reshape(-1, width))
        return dx.reshape(x.shape), dgamma, dbeta


class Softmax(nn.Cell):
    """Twin of ``ops.Softmax(-1)`` in float32, whose gradient MindSpore composes of five operations."""

    def __init__(self):
        super().__init__()
        self.forward = ops.Softmax(-1)
        self.backward = _kernel('softmax_grad', _first, _one_float)

    def construct(self, x):
        return self.forward(x)

    def bprop(self, x, out, dout):
        width = out.shape[-1]
        return (self.backward(out.reshape(-1, width), dout.reshape(-1, width)).reshape(out.shape),)


class Targets(nn.Cell):
    """Twin of ``hcma.losses.contrastive.Targets``."""

    def __init__(self):
        super().__init__()
        self.forward = _kernel('targets', _targets_shape, _one_float)

    def construct(self, group_CG, column_group_BG, row_C, column_B):
        return self.forward(group_CG, column_group_BG.swapaxes(0, 1), row_C, column_B)


class SoftmaxSlopes(Targets):
    """Twin of ``hcma.losses.contrastive.SoftmaxSlopes`` in one pass."""

    def construct(self, group_CG, column_group_BG, row_C, column_B, score_CB, row_sum_C, column_sum_B):
        group_GB = column_group_BG.swapaxes(0, 1)
        return self.forward(group_CG, group_GB, row_C, column_B, score_CB, row_sum_C, column_sum_B)


class SquareSum(nn.Cell):
    """Twin of ``hcma.training.adam.SquareSum``."""

    def __init__(self):
        super().__init__()
        self.forward = _kernel('square_sum', _one_number, _one_float)

    def construct(self, gradients):
        return self.forward(*gradients).reshape(())


class Adam(nn.Cell):
    """Twin of ``hcma.training.adam.Adam`` in one pass over all weights."""

    def __init__(self, rates, decays):
        super().__init__()
        self.rates, self.decays = (Tensor(np.array(numbers, np.float32)) for numbers in (rates, decays))
        self.forward = _kernel('adam', _one_number, _one_float)
        self.forward.add_prim_attr('side_effect_mem', True)  # it writes to its inputs

    def construct(self, parameters, moment1, moment2, gradients, numbers):
        arrays = parameters + moment1 + moment2 + gradients
        return self.forward(*arrays, self.rates, self.decays, ops.stack(numbers))


class GatherSum(nn.Cell):
    """Twin of ``hcma.models.convolution.GatherSum`` in one float32 pass."""

    def __init__(self):
        super().__init__()
        self.forward = _kernel('gather_sum', _gathered_shape, _one_float)

    def construct(self, x_BNC, places_MS):
        return ops.cast(self.forward(ops.cast(x_BNC, ms.float32), places_MS), x_BNC.dtype)


class SwapMiddle(nn.Cell):
    """Twin of ``hcma.models.layers.SwapMiddle`` for float32, as a gather.

    MindSpore's Transpose keeps 8 bytes for each number that it moves, for as long as its graph lives.
    """

    def __init__(self):
        super().__init__()
        self.gather, self.transpose = GatherSum(), ops.Transpose()

    def construct(self, x):
        batch, rows, columns, width = x.shape
        if x.dtype != ms.float32:
            return self.transpose(x, (0, 2, 1, 3))
        moved = self.gather(x.reshape(batch, rows * columns, width), _turned(rows, columns))
        return moved.reshape(batch, columns, rows, width)

    def bprop(self, x, out, dout):
        return (self.construct(dout),)


@ops.constexpr
@functools.lru_cache(maxsize=None)
def _turned(rows, columns):
    """Which row of a flattened (rows, columns) each of its transpose is, (columns * rows, 1)."""
    return Tensor(np.arange(rows * columns, dtype=np.int32).reshape(rows, columns).T.reshape(-1, 1))


# Shapes and types of the results. MindSpore looks them up by their source, so they cannot be lambdas.
def _best_matches_shapes(word_TLE, patch_IPE):
    texts, words, _ = word_TLE
    images, patches, _ = patch_IPE
    by_word, by_patch = [texts, words, images], [texts, images, patches]
    return by_word, by_word, by_patch, by_patch


def _best_matches_types(*_):
    return ms.float32, ms.int32, ms.float32, ms.int32


def _layer_norm_shapes(x_ND, *_):
    return x_ND, x_ND[:1], x_ND[:1]


def _layer_norm_grad_shapes(x_ND, gain_D, *_):
    return x_ND, gain_D, gain_D


def _targets_shape(group_CG, group_GB, *_):
    return [group_CG[0], group_GB[1]]


def _gathered_shape(x_BNC, places_MS):
    return [x_BNC[0], places_MS[0], x_BNC[2]]


def _one_number(*_):
    return [1]


def _one_float(*_):
    return ms.float32


def _three_floats(*_):
    return ms.float32, ms.float32, ms.float32


def _first(first, *_):
    return first


def _first_two(first, second, *_):
    return first, second
