"""Position embeddings for pictures of another size and texts of another length, in NumPy."""
import numpy as np

CUBIC = -0.75  # the free number of Keys' kernel (1981), as in PyTorch's bicubic interpolation


def resize_patch_positions(position, old, new, first=0):
    """Positions (1, first + h w, D) of a grid ``old`` (h, w), bicubically resized to the grid ``new``.

    The ``first`` rows, such as a class token's, stay. The same grid gives the same array.
    """
    width = position.shape[2]
    grid = position[0, first:].reshape(*old, width).astype(np.float64)
    rows, columns = _weights(old[0], new[0]), _weights(old[1], new[1])
    grid = np.einsum('Hh,Ww,hwd->HWd', rows, columns, grid).reshape(1, -1, width)
    return np.concatenate((position[:, :first], grid.astype(position.dtype)), 1)


def resize_word_positions(position, length):
    """Positions (1, L, D) of ``length`` tokens: the first ones as they are, the last one again where there are more.

    So a text that fitted before has the features that it had.
    """
    missing = max(0, length - position.shape[1])
    return np.concatenate((position[:, :length], np.repeat(position[:, -1:], missing, 1)), 1)


def _weights(old, new):
    """How much each of ``old`` places counts at each of ``new``, (new, old); beyond an end lies the end itself."""
    place = (np.arange(new) + 0.5) * old / new - 0.5
    before = np.floor(place).astype(int)
    weights = np.zeros((new, old))
    for at in (before - 1, before, before + 1, before + 2):
        np.add.at(weights, (np.arange(new), np.clip(at, 0, old - 1)), _kernel(np.abs(place - at)))
    return weights


def _kernel(distance):
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance ** 2 + 1
    far = CUBIC * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
