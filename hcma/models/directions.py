"""A learned bias for every attention head and every relative position, started so that heads look in directions.

Attention without it knows no left, right, before or after but what absolute positions teach it, slowly. Relative
biases are those of Shaw et al. (2018) and Swin (Liu et al., 2021); the directional start is ours.
"""
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

# How little a head sees of what lies outside its direction, as a start.
AWAY = -3.0


class RelativeBias(nn.Cell):
    """``construct()`` gives what is added to the attention scores, (1, H, N, N)."""

    def __init__(self, index_NN, table_HK):
        super().__init__()
        self.table = Parameter(Tensor(table_HK.astype(np.float32)))
        self.index = Tensor(index_NN.reshape(-1).astype(np.int32))
        self.shape = (1, len(table_HK)) + index_NN.shape

    def construct(self):
        return ops.gather(self.table, self.index, 1).reshape(self.shape)

    def of(self, chosen_BKN):
        """The bias between the chosen positions only, (B, H, K, K); ``chosen`` has a one in each row, else zeros."""
        batch, kept, positions = chosen_BKN.shape
        bias_NHN = self.construct().reshape(self.shape[1:]).transpose(1, 0, 2).reshape(positions, -1)
        rows = ops.matmul(chosen_BKN.reshape(-1, positions), bias_NHN).reshape(batch, -1, positions)
        both = ops.bmm(rows, chosen_BKN.swapaxes(1, 2)).reshape(batch, kept, -1, kept)
        return both.transpose(0, 2, 1, 3)


def word_directions(length, heads):
    """The bias of a text of ``length`` tokens; heads start forward, backward, local and free, in turn."""
    position = np.arange(length)
    index = position[None] - position[:, None] + length - 1  # key minus query
    distance = np.arange(1 - length, length)
    starts = [np.where(distance > 0, -0.2 * distance, AWAY), np.where(distance < 0, 0.2 * distance, AWAY),
              -0.7 * np.abs(distance), np.zeros(len(distance))]
    return RelativeBias(index, _in_turn(starts, heads))


def patch_directions(grid, heads, has_class):
    """The bias of a ``grid`` (rows, columns) of patches; heads start to the right, left, below and above, in turn.

    The class token, if there is one, comes first; it has no direction.
    """
    rows, columns = grid
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, right = row[None] - row[:, None], column[None] - column[:, None]
    index = (down + rows - 1) * (2 * columns - 1) + right + columns - 1
    down, right = (way.reshape(-1) for way in np.mgrid[1 - rows:rows, 1 - columns:columns])
    starts = [np.append(np.where(way > 0, 0.0, AWAY), 0.0) for way in (right, -right, down, -down)]
    if has_class:
        index = np.pad(index, ((1, 0), (1, 0)), constant_values=len(down))
    return RelativeBias(index, _in_turn(starts, heads))


def _in_turn(starts, heads):
    return np.stack([starts[head % len(starts)] for head in range(heads)])
