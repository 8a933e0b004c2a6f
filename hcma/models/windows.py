"""Means of neighbours: phrases out of words, regions out of patches."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Windows(nn.Cell):
    """``members`` (W, N) of 0 and 1 says which of N rows each of W windows holds.

    ``construct(x (B, N, D))`` gives the mean of every window, (B, W, D).
    """

    def __init__(self, members_WN):
        super().__init__()
        self.mean = Tensor((members_WN / members_WN.sum(1, keepdims=True)).astype(np.float32))
        self.product = ops.MatMul()

    def construct(self, x_BND):
        batch, rows, width = x_BND.shape
        mean = ops.cast(self.mean, x_BND.dtype)
        pooled = self.product(mean, x_BND.transpose(1, 0, 2).reshape(rows, -1))  # one product for the whole batch
        return pooled.reshape(-1, batch, width).transpose(1, 0, 2)

    def whole(self, mask_BN):
        """1 for the windows of which every row counts, else 0, (B, W)."""
        share = ops.matmul(mask_BN, self.mean.swapaxes(0, 1))
        return ops.cast(share > 1 - 0.5 / mask_BN.shape[1], mask_BN.dtype)


class Boxes(nn.Cell):
    """Means of the patches that boxes cover, each weighted by the share of it that is covered.

    ``construct(patch (B, P, D), box (B, R, 4))``, with left, top, right and bottom in patches of a ``grid`` (rows,
    columns) and no box empty, gives (B, R, D).
    """

    def __init__(self, grid):
        super().__init__()
        self.row, self.column = (Tensor(np.arange(side, dtype=np.float32)) for side in grid)
        self.product = ops.BatchMatMul()

    def construct(self, patch_BPD, box_BR4):
        across_BRW = self._shares(self.column, box_BR4[:, :, 0:1], box_BR4[:, :, 2:3])
        down_BRH = self._shares(self.row, box_BR4[:, :, 1:2], box_BR4[:, :, 3:4])
        weight_BRHW = ops.expand_dims(down_BRH, 3) * ops.expand_dims(across_BRW, 2)
        weight_BRP = weight_BRHW.reshape(box_BR4.shape[:2] + (-1,))
        return self.product(ops.cast(weight_BRP, patch_BPD.dtype), patch_BPD)

    def _shares(self, start_N, low_BR1, high_BR1):
        """What each row or column of patches has of the boxes' extent between ``low`` and ``high``, (B, R, N)."""
        covered = ops.minimum(high_BR1, start_N + 1) - ops.maximum(low_BR1, start_N)
        return ops.relu(covered) / (high_BR1 - low_BR1)


class Spans(nn.Cell):
    """Means of runs of words that are given: ``construct(word (B, L, D), span (B, Q, 2) int32)`` gives (B, Q, D).

    A span is the place of its first word and that after its last one; where both are the same there is none, and its
    mean is zero.
    """

    def __init__(self, length):
        super().__init__()
        self.place = Tensor(np.arange(length, dtype=np.int32))
        self.product = ops.BatchMatMul()

    def construct(self, word_BLD, span_BQ2):
        first_BQ1, end_BQ1 = span_BQ2[:, :, 0:1], span_BQ2[:, :, 1:2]
        inside_BQL = ops.logical_and(self.place >= first_BQ1, self.place < end_BQ1)
        weight_BQL = ops.cast(inside_BQL, ms.float32) / ops.cast(ops.maximum(end_BQ1 - first_BQ1, 1), ms.float32)
        return self.product(ops.cast(weight_BQL, word_BLD.dtype), word_BLD)

    def present(self, span_BQ2):
        """1 for the spans that have a word, else 0, (B, Q) float32."""
        return ops.cast(span_BQ2[:, :, 1] > span_BQ2[:, :, 0], ms.float32)


def word_windows(length, sizes):
    """All runs of ``sizes`` neighbouring words in a text of ``length`` tokens, (W, length)."""
    position = np.arange(length)
    return np.stack([(position >= first) & (position < first + size)
                     for size in sizes for first in range(length - size + 1)]).astype(np.float32)


def patch_windows(grid, sizes):
    """Squares of ``sizes`` x ``sizes`` patches of a ``grid`` (rows, columns), (W, P)."""
    row, column = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    return np.stack([(row >= top) & (row < bottom) & (column >= left) & (column < right)
                     for left, top, right, bottom in window_boxes(grid, sizes)]).astype(np.float32)


def window_boxes(grid, sizes):
    """The same squares as left, top, right and bottom in patches, (W, 4).

    Each overlaps the next by half of its side, so that a thing is never cut by all of them.
    """
    boxes = []
    for size in sizes:
        tops, lefts = (sorted({*range(0, side - size, (size + 1) // 2), side - size}) for side in grid)
        boxes += [(left, top, left + size, top + size) for top in tops for left in lefts]
    return np.array(boxes, np.float32)


def shared_areas(grid, other):
    """Which share of each patch of a ``grid`` (rows, columns) lies in each one of an ``other``, (P, P')."""
    return np.kron(*(_shared_lengths(*sides) for sides in zip(grid, other))).astype(np.float32)


def _shared_lengths(side, other):
    low, other_low = np.arange(side)[:, None] / side, np.arange(other) / other
    shared = np.minimum(low + 1 / side, other_low + 1 / other) - np.maximum(low, other_low)
    return side * shared.clip(0)
