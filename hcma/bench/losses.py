"""One contrastive loss with its gradients, in a process of its own, whose peak memory is therefore its own.

``python -m hcma.bench.losses KIND PAIRS WIDTH WORDS PATCHES`` prints milliseconds and the growth of memory in GiB.
"""
import sys
import time

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma import backend
from hcma.bench.stopwatch import peak_bytes
from hcma.losses.blockwise import BlockwiseSoftmax
from hcma.losses.contrastive import info_nce, positives
from hcma.models.scores import LateInteraction, SentenceGlobal

GIB = 2 ** 30


class Loss(nn.Cell):
    """Text, mask, image, scale and group to InfoNCE, in 'blocks' or 'whole'."""

    def __init__(self, kind, score):
        super().__init__()
        self.score = score
        self.blockwise = BlockwiseSoftmax(score) if kind == 'blocks' else None

    def construct(self, text, mask, image, scale, group_BG):
        if self.blockwise is None:
            return info_nce(self.score(text, mask, image) * scale, positives(group_BG, group_BG))
        none_B = ops.zeros((text.shape[0],), ms.float32)
        return self.blockwise(text, mask, image, scale, 0.0, group_BG, group_BG, none_B, none_B)[0]


class Gradient(nn.Cell):
    """Loss and gradients of text, image and scale."""

    def __init__(self, loss):
        super().__init__()
        self.gradient = ops.value_and_grad(loss, (0, 2, 3))

    def construct(self, *inputs):
        return self.gradient(*inputs)


def rows(rng, *shape):
    """Normalised rows."""
    x = rng.standard_normal(shape, np.float32)
    return Tensor(x / np.sqrt((x * x).sum(-1, keepdims=True)))


def measure(kind, pairs, width, words, patches, rounds=3):
    """Milliseconds of a call (the fastest of ``rounds``), GiB that memory grew, and the loss."""
    rng = np.random.default_rng(0)
    if words:
        score, text, image = LateInteraction(), rows(rng, pairs, words, width), rows(rng, pairs, patches, width)
    else:
        score, text, image = SentenceGlobal(), rows(rng, pairs, width), rows(rng, pairs, width)
    mask, group = np.ones((pairs, words or 1), np.float32), np.arange(2 * pairs).reshape(pairs, 2) // 2
    inputs = text, Tensor(mask), image, Tensor(14.0, ms.float32), Tensor(group)
    gradient, times = Gradient(Loss(kind, score)), []
    before = peak_bytes()
    for _ in range(rounds + 1):  # the first compiles
        start = time.perf_counter()
        loss, gradients = gradient(*inputs)
        gradients[0].asnumpy()
        times.append((time.perf_counter() - start) * 1e3)
    growth = peak_bytes() - before
    return min(times[1:]), growth / GIB, float(loss.asnumpy())


if __name__ == '__main__':
    backend.set_up('graph')
    print(*measure(sys.argv[1], *map(int, sys.argv[2:])))
