"""COCO captions: one JSON object with ``images`` (id, file_name) and ``annotations`` (image_id, caption).

A row is an image; its line is its place in ``images``, counted from 1.
"""
import json

from hcma.data.sources.pairs import BAD_ROW, Reject
from hcma.data.sources.rows import CAPTION_KEYS, find_keys
from hcma.data.sources.text import open_text
from hcma.errors import InputError

CAPTIONS = 'captions'
_LOOKED_AT = 100


def read_rows(path, file, caption_key=None):
    """Yield ``(line, dict)`` or ``Reject`` for each image and each stray annotation of the JSON at ``path``.

    The captions of an image stand in its field ``captions``.
    """
    images, annotations = _lists(path)
    fields = [name for entry in annotations[:_LOOKED_AT] if isinstance(entry, dict) for name in entry]
    keys = find_keys(caption_key, CAPTION_KEYS, list(dict.fromkeys(fields)), '--caption-key', path)
    captions = {entry['id']: [] for entry in images if _has(entry, 'id')}
    for place, entry in enumerate(annotations, start=1):
        if _has(entry, 'image_id') and entry['image_id'] in captions:
            captions[entry['image_id']].append(next((entry[key] for key in keys if key in entry), None))
        else:
            yield Reject(file, place, '', f'{BAD_ROW}: annotation of no known image')
    for place, entry in enumerate(images, start=1):
        if _has(entry, 'id'):
            yield place, {**entry, CAPTIONS: captions[entry['id']]}
        else:
            yield Reject(file, place, '', f'{BAD_ROW}: image without id')


def _has(entry, key):
    return isinstance(entry, dict) and isinstance(entry.get(key), (int, str))


def _lists(path):
    try:
        with open_text(path) as file:
            whole = json.load(file)
    except (ValueError, RecursionError) as error:
        raise InputError(f'{path}: not JSON: {error}') from error
    lists = [whole.get(name) if isinstance(whole, dict) else None for name in ('images', 'annotations')]
    if not all(isinstance(entries, list) and entries for entries in lists):
        raise InputError(f'{path}: not COCO captions, which are an object with lists "images" and "annotations"')
    return lists
