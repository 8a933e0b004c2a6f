"""A cell over many rows, in blocks of one size."""
import numpy as np
from mindspore import Tensor
from tqdm import tqdm


def in_batches(cell, rows, size, total, what):
    """The outputs of ``cell`` over an iterable of ``total`` rows, tuples of one array for each input of the cell.

    Returns a tuple of arrays (total, ...).
    """
    return tuple(np.concatenate(parts) for parts in zip(*blocks(cell, rows, size, total, what)))


def blocks(cell, rows, size, total, what):
    """Yield the same block by block, as lists of arrays of at most ``size`` rows; there may be fewer than ``total``.

    The cell always gets ``size`` rows, so it is compiled once.
    """
    waiting = []
    with tqdm(total=total, desc=what, unit=what[:-1], delay=2, leave=False) as progress:
        for row in rows:
            waiting.append(row)
            if len(waiting) == size:
                yield _block(cell, waiting, size)
                progress.update(len(waiting))
                waiting = []
    if waiting:
        yield _block(cell, waiting, size)


def _block(cell, rows, size):
    """The last block is filled up with its last row: another shape would be compiled anew."""
    filled = rows + [rows[-1]] * (size - len(rows))
    outputs = cell(*(Tensor(np.stack(column)) for column in zip(*filled)))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.asnumpy()[:len(rows)] for output in outputs]
