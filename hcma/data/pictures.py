"""Pictures of many files decoded once, as rows of one array."""
import tempfile

import numpy as np
from tqdm import tqdm

from hcma.data.images import ImageRejected, decode_rgb
from hcma.data.sources.pairs import Blob, Reject

# Larger arrays lie in a temporary file, from which the system keeps in memory what fits.
IN_MEMORY = 2 << 30


def load_pictures(paths, decoder):
    """The pictures at the distinct ``paths`` (N, S, S, 3) uint8 and {row: reason} of those that cannot be used."""
    pictures, bad = empty((len(paths), decoder.size, decoder.size, 3), np.uint8), {}
    for row, path in enumerate(tqdm(paths, desc='pictures', unit='picture', delay=2, leave=False)):
        try:
            pictures[row] = decoder.square(np.asarray(decode_rgb(Blob(path).read())))
        except ImageRejected as error:
            bad[row] = str(error)
    return pictures, bad


def pictures_of(items, rejects, decoder):
    """The pictures that ``items`` (with ``image``, a path, and ``line``) are about: (usable items, all rejects,
    pictures (N, S, S, 3) uint8, for each usable item its row among them).
    """
    row_of = {path: row for row, path in enumerate(dict.fromkeys(item.image for item in items))}
    pictures, bad = load_pictures(list(row_of), decoder)
    usable = [item for item in items if row_of[item.image] not in bad]
    unusable = [item for item in items if row_of[item.image] in bad]
    rejects = [*rejects, *(Reject('', item.line, item.image, bad[row_of[item.image]]) for item in unusable)]
    return usable, rejects, pictures, np.array([row_of[item.image] for item in usable], np.int64)


def empty(shape, dtype):
    """An array of zeros, in memory if it is small enough."""
    if np.prod(shape, dtype=np.int64) * np.dtype(dtype).itemsize <= IN_MEMORY:
        return np.zeros(shape, dtype)
    return np.memmap(tempfile.TemporaryFile(), dtype, 'w+', shape=tuple(shape))
