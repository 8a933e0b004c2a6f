"""What every source of pairs gives: pairs, rejected rows, and the cleaning and merging that all sources share.

Nothing here reads pixels: a ``Pair`` says where the bytes of its image lie, and ``Blob.read`` fetches them.
"""
import os
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

from hcma.data.images import ImageRejected

NO_CAPTION = 'no caption'
NO_IMAGE = 'no image'
IS_URL = 'image is a URL, which is never fetched'
BAD_ROW = 'bad row'

_URL = re.compile(r'[a-z][a-z0-9+.-]*://', re.IGNORECASE)


@dataclass(frozen=True)
class Blob:
    """Where some bytes lie: a file, or ``size`` bytes at ``offset`` within one (a member of a tar)."""
    path: str
    offset: int = 0
    size: int = -1

    def read(self):
        """Return the bytes, or raise ``ImageRejected``."""
        if not os.path.exists(self.path):
            raise ImageRejected('missing file')
        if not os.path.isfile(self.path):
            raise ImageRejected('not a file')
        try:
            with open(self.path, 'rb') as file:
                file.seek(self.offset)
                return file.read(self.size)
        except OSError as error:
            raise ImageRejected(f'unreadable file: {error.strerror}') from error


class Negative(NamedTuple):
    """A caption that is false of an image; ``of`` is the true caption it is worded like, or '' where it is of none."""
    text: str
    of: str = ''


class Chunk(NamedTuple):
    """Words that belong together: the characters ``start`` to ``end`` of the text ``of``, a caption or negative."""
    of: str
    start: int
    end: int


@dataclass(frozen=True)
class Pair:
    """An image with its captions; ``name`` is how the row names it, ``lines`` the rows of ``file`` it came from.

    ``negatives`` are ``Negative``s; pairs of one file that share a ``twin`` (a text, or None) are nearly equal
    pictures. ``boxes`` are (x0, y0, x1, y1) in pixels of the upright picture, ``chunks`` are ``Chunk``s.
    """
    image: Blob
    name: str
    captions: tuple
    file: str
    lines: tuple
    negatives: tuple = ()
    twin: Optional[str] = None
    boxes: tuple = ()
    chunks: tuple = ()


@dataclass(frozen=True)
class Reject:
    """A row that gives no pair; ``reason`` is a kind, or a kind, a colon and a detail."""
    file: str
    line: int
    image: str
    reason: str

    @property
    def kind(self):
        """The reason without its detail: what the summary counts."""
        return self.reason.split(':')[0]


def clean_caption(text):
    """Return ``text`` in NFC on one line: white space collapsed, control characters and stray halves removed."""
    text = unicodedata.normalize('NFC', ' '.join(text.split()))
    kept = ''.join(char for char in text if unicodedata.category(char) not in ('Cc', 'Cs'))
    return ' '.join(kept.split())


def clean_captions(values):
    """Return the usable captions among ``values`` (anything but strings is dropped), each once, in order."""
    cleaned = (clean_caption(value) for value in values if isinstance(value, str))
    return tuple(dict.fromkeys(caption for caption in cleaned if caption))


def pair_of_row(image, captions, root, file, line, negatives=None, twin=None):
    """Return the ``Pair`` of one row, or the ``Reject`` that says why there is none.

    ``image`` is the row's value for the image (a path relative to ``root``), ``captions`` and ``negatives`` are a
    string or a list, ``negatives`` also a mapping from captions to these, ``twin`` is a string or a whole number; what
    is anything else among the last two counts as none.
    """
    if not isinstance(image, str) or not image.strip():
        return Reject(file, line, '', NO_IMAGE)
    image = image.strip()
    if _URL.match(image):
        return Reject(file, line, image, IS_URL)
    if '\0' in image:
        return Reject(file, line, image, f'{BAD_ROW}: a NUL in the image path')
    pair = captioned(Blob(os.path.join(root, image)), image, captions, file, line)
    if isinstance(pair, Reject):
        return pair
    return replace(pair, negatives=_negatives(negatives), twin=_twin(twin))


def captioned(blob, name, captions, file, line):
    """Return the ``Pair`` of an image and its captions (a string or a list), or a ``Reject`` if none is usable."""
    texts = _texts(captions)
    return Pair(blob, name, texts, file, (line,)) if texts else Reject(file, line, name, NO_CAPTION)


def _texts(value):
    return clean_captions(value if isinstance(value, list) else [value])


def _negatives(value):
    by_caption = value if isinstance(value, dict) else {'': value}
    return tuple(Negative(text, clean_caption(caption)) for caption, texts in by_caption.items()
                 for text in _texts(texts))


def _twin(value):
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return clean_caption(str(value)) or None


def merge_pairs(items):
    """Gather an iterable of ``Pair`` and ``Reject`` into ``(pairs, rejects)``.

    Rows that name the same image become one pair, at the place of the first, with every caption and all else once.
    """
    gathered, rejects = {}, []
    for item in items:
        if isinstance(item, Reject):
            rejects.append(item)
        else:
            image = item.image
            gathered.setdefault((os.path.normpath(image.path), image.offset), []).append(item)
    return [_merge(same) for same in gathered.values()], rejects


def _merge(same):
    first = same[0]
    if len(same) == 1:
        return first
    every = {key: tuple(dict.fromkeys(item for pair in same for item in getattr(pair, key)))
             for key in ('captions', 'negatives', 'boxes', 'chunks')}
    lines = tuple(line for pair in same if pair.file == first.file for line in pair.lines)
    twin = next((pair.twin for pair in same if pair.file == first.file and pair.twin), None)
    return replace(first, lines=lines, twin=twin, **every)
