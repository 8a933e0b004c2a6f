"""Rows with named fields become pairs: which field is the image, which the captions, which rows are of the split."""
import difflib
import itertools
from dataclasses import dataclass
from typing import Optional

from hcma.data.sources.pairs import Reject, pair_of_row
from hcma.data.sources.parts import with_parts
from hcma.errors import InputError

IMAGE_KEYS = ('image', 'file_name', 'filename', 'filepath', 'image_path', 'path', 'image_name', 'image_file', 'img',
              'file', 'url')
CAPTION_KEYS = ('captions', 'caption', 'text', 'texts', 'title', 'sentence', 'sentences', 'comment', 'description')
SPLIT_KEY = 'split'
NEGATIVES_KEY = 'negatives'
TWIN_KEY = 'twin'
_LOOKED_AT = 100  # rows whose fields are looked at to find the keys


@dataclass(frozen=True)
class Options:
    """What the user may say about a source; None leaves it to the source."""
    image_root: Optional[str] = None
    image_key: Optional[str] = None
    caption_key: Optional[str] = None
    split: Optional[str] = None


def pairs_of_rows(rows, path, file, root, options):
    """Yield a ``Pair`` or ``Reject`` for each of ``rows``: an iterable of ``(line, dict)`` and ``Reject``.

    ``path`` is the source as the user gave it, ``file`` its name in the pack, ``root`` the images' folder.
    Raises ``InputError`` if no row has the keys, or none is of the split.
    """
    rows = iter(rows)
    head = list(itertools.islice(rows, _LOOKED_AT))
    found = _fields(head)
    image_keys = find_keys(options.image_key, IMAGE_KEYS, found, '--image-key', path)
    caption_keys = find_keys(options.caption_key, CAPTION_KEYS, found, '--caption-key', path)
    splits = set()
    for row in itertools.chain(head, rows):
        if isinstance(row, Reject):
            yield row
            continue
        line, fields = row
        split = str(fields.get(SPLIT_KEY, ''))
        splits.add(split)
        if options.split in (None, split):
            captions = _first(fields, caption_keys)
            pair = pair_of_row(_first(fields, image_keys), captions, root, file, line, fields.get(NEGATIVES_KEY),
                               fields.get(TWIN_KEY))
            yield from with_parts(pair, captions, fields)
    _require_split(options.split, splits, path)


def find_keys(given, usual, found, option, path):
    """Return the keys to look for in a row, in order: the one ``given``, or the ``usual`` ones.

    Raises ``InputError`` if the fields ``found`` in the first rows have none of them; no fields prove nothing.
    """
    keys = [given] if given else list(usual)
    if not found or any(key in found for key in keys):
        return keys
    lower = {name.lower(): name for name in found}
    near = [lower[name] for key in keys for name in difflib.get_close_matches(key.lower(), lower, n=1)]
    wanted = f'"{given}"' if given else f'any of {", ".join(usual)}'
    raise InputError(f'{path}: no field is named {wanted}; the fields are {", ".join(found)}; '
                     f'pass {option} {near[0] if near else "NAME"}')


def _fields(rows):
    names = dict.fromkeys(name for row in rows if not isinstance(row, Reject) for name in row[1])
    return [str(name) for name in names]


def _first(fields, keys):
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _require_split(split, splits, path):
    if split is not None and split not in splits:
        found = ', '.join(sorted(splits - {''})) or 'no such field'
        raise InputError(f'{path}: no row has "{SPLIT_KEY}" equal to "{split}"; found: {found}')
