"""What the tests of scores share."""
import numpy as np
import pytest

TEXTS, IMAGES, WORDS, PATCHES, WIDTH = 4, 3, 5, 4, 6


@pytest.fixture(scope='module')
def features():
    """Words, their mask (the second text has one word, the last none) and patches, in float64."""
    rng = np.random.default_rng(0)
    mask = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]], np.float64)
    return _rows(rng, TEXTS, WORDS, WIDTH), mask, _rows(rng, IMAGES, PATCHES, WIDTH)


def _rows(rng, *shape):
    x = rng.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)
