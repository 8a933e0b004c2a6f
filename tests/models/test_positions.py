"""Resized positions are Keys' cubic convolution, computed here one place at a time, and nothing at the same size."""
import numpy as np
import pytest

from hcma.models.positions import resize_patch_positions, resize_word_positions


def kernel(x, a=-0.75):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1
    return a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a if x < 2 else 0.0


def one(grid, y, x):
    """The value at the place (y, x) of a grid whose border goes on beyond it."""
    height, width = grid.shape[:2]
    return sum(kernel(y - row) * kernel(x - column) * grid[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
               for row in range(int(y) - 3, int(y) + 4) for column in range(int(x) - 3, int(x) + 4))


@pytest.mark.parametrize('old, new', [((3, 3), (5, 5)), ((4, 4), (3, 3)), ((2, 4), (5, 3)), ((7, 7), (7, 9))], ids=str)
def test_every_patch_has_the_interpolated_position_and_the_class_its_own(old, new):
    position = np.random.default_rng(0).normal(size=(1, 1 + old[0] * old[1], 2)).astype(np.float32)
    grid = position[0, 1:].reshape(*old, 2).astype(np.float64)
    resized = resize_patch_positions(position, old, new, first=1)
    assert resized.dtype == np.float32 and np.array_equal(resized[:, :1], position[:, :1])
    expected = [one(grid, (row + 0.5) * old[0] / new[0] - 0.5, (column + 0.5) * old[1] / new[1] - 0.5)
                for row in range(new[0]) for column in range(new[1])]
    np.testing.assert_allclose(resized[0, 1:], expected, atol=1e-6)


def test_the_same_grid_is_the_same_array():
    position = np.random.default_rng(0).normal(size=(1, 9, 4)).astype(np.float32)
    assert np.array_equal(resize_patch_positions(position, (3, 3), (3, 3)), position)


def test_words_keep_their_positions_and_the_last_goes_on():
    position = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    assert np.array_equal(resize_word_positions(position, 2), position[:, :2])
    assert resize_word_positions(position, 5).tolist() == [[[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]]]
