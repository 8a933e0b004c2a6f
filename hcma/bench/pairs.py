"""Pairs of a slow and a fast way to one result, at the sizes of the preset ``small`` with a batch of 64."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, mutable, nn, ops

from hcma import backend
from hcma.kernels import cells
from hcma.losses.contrastive import SoftmaxSlopes, Targets
from hcma.models.layers import Affine, SwapMiddle
from hcma.models.scores import BestMatches

RNG = np.random.default_rng(0)


class Gradient(nn.Cell):
    """The gradients of the sum of a cell's first output with respect to all its inputs."""

    def __init__(self, cell, inputs):
        super().__init__(auto_prefix=False)
        self.cell = cell
        self.gradient = ops.grad(self.total, tuple(range(inputs)))

    def total(self, *inputs):
        result = self.cell(*inputs)
        return result[0].sum() + result[1].sum() if isinstance(result, tuple) else result.sum()

    def construct(self, *inputs):
        return self.gradient(*inputs)


class Product(nn.Cell):
    """``ops.matmul``, whose gradient transposes explicitly."""

    def construct(self, x, y):
        return ops.matmul(x, y)


class Applied(nn.Cell):
    """An operation, compiled like the cells that it is compared with."""

    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def construct(self, *inputs):
        return self.operation(*inputs)


class Maxima(nn.Cell):
    """The best patch of every word and the best word of every patch, differentiated automatically."""

    def construct(self, word_TLE, patch_IPE):
        texts, words, width = word_TLE.shape
        images, patches, _ = patch_IPE.shape
        cosine = ops.matmul(word_TLE.reshape(-1, width), patch_IPE.reshape(-1, width).swapaxes(0, 1))
        cosine = cosine.reshape(texts, words, images, patches)
        return ops.amax(cosine, 3), ops.amax(cosine, 1)


class First(nn.Cell):
    """The first output of a cell that has several."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def construct(self, *inputs):
        return self.cell(*inputs)[0]


class BothMaxima(nn.Cell):
    """The maxima of a cell like ``BestMatches``, without their positions."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def construct(self, word_TLE, patch_IPE):
        best_patch, _, best_word, _ = self.cell(word_TLE, patch_IPE)
        return best_patch, best_word


class Sum(nn.Cell):
    """A matrix and a row, by ``+``."""

    def construct(self, x, bias):
        return x + bias


class Difference(nn.Cell):
    """A matrix less a row or a column, ten times; the first number of it."""

    def construct(self, x, vector):
        for _ in range(10):
            x = x - vector
        return x[0, 0]


class Total(nn.Cell):
    """Takes a tuple of Tensors."""

    def construct(self, features):
        return features[0] + features[1]


def pairs():
    """(name, slow call, fast call) for every comparison."""
    columns, kernel, rows, wide = _random(36864, 27), _random(27, 16), _random(1152, 1536), _random(1536)
    word, patch = _random(64, 24, 64), _random(64, 36, 64)
    total, ones = Total(), np.ones((64, 64), np.float32)
    plain, bias = Sum(), Applied(ops.BiasAdd())
    apart, fused, affine = Affine(transposed=False), Affine(transposed=False), (columns, kernel, _random(16))
    apart.fused = None
    less, scores, row, column = Difference(), _random(512, 8192), _random(1, 8192), _random(512, 1)
    return [
        ('product of 36,864 x 27 x 16 with gradient: ops.matmul, ops.MatMul',
         *_calls((Product(), Applied(ops.MatMul())), columns, kernel)),
        ('maxima over 64 x 24 x 64 x 36 with gradient: automatic, scattered',
         *_calls((Maxima(), BothMaxima(BestMatches())), word, patch)),
        ('1,152 x 1,536 and a bias: +, ops.BiasAdd',
         lambda: plain(rows, wide).asnumpy(), lambda: bias(rows, wide).asnumpy()),
        ('product of 36,864 x 27 x 16 and its bias: MatMul and BiasAdd, FusedMatMulBiasAdd',
         lambda: apart(*affine).asnumpy(), lambda: fused(*affine).asnumpy()),
        ('512 x 8,192 less a number for each row, for each column, ten times',
         lambda: less(scores, column).asnumpy(), lambda: less(scores, row).asnumpy()),
        ('a tuple of new Tensors given to a compiled cell: plain, mutable',
         lambda: total((Tensor(ones), Tensor(ones))).asnumpy(),
         lambda: total(mutable((Tensor(ones), Tensor(ones)))).asnumpy()),
        *(_compiled(word, patch) if backend.compiles_kernels() else []),
    ]


def _compiled(word, patch):
    rows, gain, shift = _random(2304, 64), _random(64), _random(64)
    group, share = Tensor(RNG.integers(0, 2 ** 62, (2048, 2))), _random(2048)
    targets, slopes = (Targets(), cells.Targets()), (SoftmaxSlopes(), cells.SoftmaxSlopes())
    scores = _random(512, 2048)
    softmax = (group[:512], group, share[:512], share, scores, ops.logsumexp(scores, 1), ops.logsumexp(scores, 0))
    return [
        ('maxima over 64 x 24 x 64 x 36 with gradient: scattered, compiled',
         *_calls((BothMaxima(BestMatches()), BothMaxima(cells.BestMatches())), word, patch)),
        ('layer norm of 2,304 x 64 with gradient: MindSpore\'s, compiled',
         *_calls((First(ops.LayerNorm(-1, -1, 1e-5)), First(cells.LayerNorm(1e-5))), rows, gain, shift)),
        ('positives among 2,048 pairs with two ids each: MindSpore\'s, compiled',
         *(lambda cell=cell: cell(group, group, share, share).asnumpy() for cell in targets)),
        ('slopes of the softmax of 512 x 2,048 scores both ways: MindSpore\'s, compiled',
         *(lambda cell=cell: cell(*softmax).asnumpy() for cell in slopes)),
        ('softmax of 64 x 4 x 36 x 36 with gradient: MindSpore\'s, compiled',
         *_calls((ops.Softmax(-1), cells.Softmax()), _random(64, 4, 36, 36))),
        ('8 x 77 x 8 x 64, the middle axes swapped, with gradient: MindSpore\'s, compiled',
         *_calls((SwapMiddle(), cells.SwapMiddle()), _random(8, 77, 8, 64))),
    ]


def _calls(cells, *inputs):
    gradients = [Gradient(cell, len(inputs)) for cell in cells]
    return [lambda gradient=gradient: gradient(*inputs)[0].asnumpy() for gradient in gradients]


def _random(*shape):
    return Tensor(RNG.standard_normal(shape), ms.float32)
