"""Pictures of many files decoded once, as rows of one array."""
import tempfile

import numpy as np
from tqdm import tqdm

from hcma.data.images import ImageRejected, decode_rgb
from hcma.data.sources.pairs import Blob, Reject

# Larger arrays lie in a temporary file, from which the system keeps in memory what fits.
IN_MEMORY = 2 << 30


def pictures_of(items, rejects, decoder):
    """The pictures that ``items`` (with ``image``, a path, and ``line``) are about.

    Returns the usable items, all rejects, the pictures (N, H, W, 3) uint8 and for each usable item its row among them.
    """
    paths = dict.fromkeys(item.image for item in items)
    pictures, row_of, bad = _empty((len(paths), *decoder.pixels, 3), np.uint8), {}, {}
    for path, picture in decoded_pictures(paths, decoder):
        if isinstance(picture, ImageRejected):
            bad[path] = str(picture)
        else:
            pictures[len(row_of)] = picture
            row_of[path] = len(row_of)
    usable = [item for item in items if item.image in row_of]
    rejects = [*rejects, *(Reject('', item.line, item.image, bad[item.image]) for item in items if item.image in bad)]
    rows = np.array([row_of[item.image] for item in usable], np.int64)
    return usable, rejects, pictures[:len(row_of)], rows


def decoded_pictures(paths, decoder):
    """Yield (path, picture (H, W, 3) uint8 or the ``ImageRejected`` that says why there is none) for each path."""
    for path in tqdm(paths, desc='pictures', unit='picture', delay=2, leave=False):
        try:
            yield path, decoder.whole(np.asarray(decode_rgb(Blob(path).read())))
        except ImageRejected as error:
            yield path, error


def _empty(shape, dtype):
    """An array of zeros, in memory if it is small enough."""
    if np.prod(shape, dtype=np.int64) * np.dtype(dtype).itemsize <= IN_MEMORY:
        return np.zeros(shape, dtype)
    return np.memmap(tempfile.TemporaryFile(), dtype, 'w+', shape=tuple(shape))
