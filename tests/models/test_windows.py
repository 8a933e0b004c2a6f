"""Phrases and regions are the means of their members, and a phrase counts only where it is whole."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.models.windows import Windows, patch_windows, shared_areas, word_windows

RNG = np.random.default_rng(0)


def test_windows_are_the_means_of_their_members():
    members = word_windows(5, (2, 3))
    x = RNG.normal(size=(2, 5, 4))
    expected = [x[:, first:first + size].mean(1) for size in (2, 3) for first in range(5 - size + 1)]
    np.testing.assert_allclose(Windows(members)(Tensor(x, ms.float32)).asnumpy(), np.stack(expected, 1), atol=1e-6)


@pytest.mark.parametrize('words', range(7))
def test_a_phrase_counts_where_all_of_its_words_do(words):
    """The words are positions 1 to ``words``."""
    position = np.arange(8)
    mask = ((position >= 1) & (position <= words)).astype(np.float32)[None]
    members = word_windows(8, (2, 3))
    whole = Windows(members).whole(Tensor(mask)).asnumpy()[0]
    assert whole.tolist() == [float((mask[0][member > 0] > 0).all()) for member in members]
    assert whole.sum() == max(words - 1, 0) + max(words - 2, 0)


@pytest.mark.parametrize('grid, sizes', [((2, 2), (2,)), ((6, 6), (2, 3)), ((5, 7), (3, 5)), ((14, 9), (4, 7))])
def test_regions_are_squares_that_cover_the_picture_and_overlap(grid, sizes):
    for size in sizes:
        windows = patch_windows(grid, (size,)).reshape(-1, *grid)
        assert (windows.sum((1, 2)) == size * size).all() and windows.any(0).all()
        for window in windows:
            row, column = np.nonzero(window)
            assert (np.ptp(row), np.ptp(column)) == (size - 1, size - 1)
        assert size == min(grid) or (windows.sum(0) > 1).any()
    assert len(np.unique(patch_windows(grid, sizes), axis=0)) == len(patch_windows(grid, sizes))


@pytest.mark.parametrize('grid, other', [((4, 4), (4, 4)), ((4, 4), (2, 2)), ((2, 3), (4, 4)), ((6, 4), (4, 6)),
                                         ((3, 3), (7, 2))])
def test_shared_areas_keep_all_of_each_patch_and_are_those_of_a_fine_raster(grid, other):
    shares = shared_areas(grid, other)
    fine = np.multiply(grid, other)  # every patch of both holds whole points of this raster
    at, to = (np.kron(np.arange(np.prod(sides)).reshape(sides), np.ones(fine // sides, int)) for sides in (grid, other))
    expected = np.zeros((np.prod(grid), np.prod(other)))
    np.add.at(expected, (at.reshape(-1), to.reshape(-1)), np.prod(grid) / np.prod(fine))
    np.testing.assert_allclose(shares, expected, atol=1e-6)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
