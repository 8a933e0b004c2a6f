"""Means of neighbours: phrases out of words, regions out of patches."""
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


def word_windows(length, sizes):
    """All runs of ``sizes`` neighbouring words in a text of ``length`` tokens, (W, length)."""
    position = np.arange(length)
    return np.stack([(position >= first) & (position < first + size)
                     for size in sizes for first in range(length - size + 1)]).astype(np.float32)


def patch_windows(grid, sizes):
    """Squares of ``sizes`` x ``sizes`` patches of a ``grid`` x ``grid`` picture, (W, grid**2).

    Each overlaps the next by half of its side, so that a thing is never cut by all of them.
    """
    row, column = np.divmod(np.arange(grid * grid), grid)
    windows = []
    for size in sizes:
        starts = sorted({*range(0, grid - size, (size + 1) // 2), grid - size})
        windows += [(row >= top) & (row < top + size) & (column >= left) & (column < left + size)
                    for top in starts for left in starts]
    return np.stack(windows).astype(np.float32)
