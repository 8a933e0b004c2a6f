"""Users' pairs of images and captions, in whatever format they come: ``read_pairs`` reads them all.

Reads no pixels and needs no MindSpore.
"""
import dataclasses
import itertools
import os

from tqdm import tqdm

from hcma.data.sources import bundles, coco, flickr, jsonl, tables
from hcma.data.sources.pairs import Blob, Pair, Reject, merge_pairs
from hcma.data.sources.recognise import recognise, require_source, tars_of
from hcma.data.sources.rows import Options, pairs_of_rows
from hcma.errors import InputError

__all__ = ['FORMATS', 'Blob', 'Options', 'Pair', 'Reject', 'read_pairs']

FORMATS = ('jsonl', 'csv', 'tsv', 'coco', 'flickr', 'folder', 'tar')
_WITHOUT_SPLIT = ('flickr', 'folder', 'tar')


def read_pairs(path, format=None, options=Options()):
    """Return ``(pairs, rejects)``, lists of ``Pair`` and ``Reject``, of the source at ``path``.

    ``format`` is one of ``FORMATS``, or None to recognise it. Rows that name the same image become one pair with all
    their captions. Raises ``InputError`` if there is nothing to read, the format is another, or no row has an image
    and a caption field.
    """
    kind = format or recognise(path)
    require_source(path, kind)
    if options.split is not None and kind in _WITHOUT_SPLIT:
        raise InputError(f'{path}: {kind} sources have no "split" field; leave out --split')
    return merge_pairs(tqdm(_items(path, kind, options), desc='read', unit='row', delay=2, leave=False))


def _items(path, kind, options):
    """Return an iterable of ``Pair`` and ``Reject``."""
    if kind == 'folder':
        return bundles.read_folder(path, options)
    if kind == 'tar':
        return itertools.chain.from_iterable(bundles.read_tar(tar, options) for tar in tars_of(path))
    file, root = os.path.basename(path), options.image_root or os.path.dirname(path)
    if kind == 'jsonl':
        rows = jsonl.read_rows(path, file)
    elif kind == 'flickr':
        rows, options = flickr.read_rows(path, file), Options(options.image_root)
    elif kind == 'coco':
        rows = coco.read_rows(path, file, options.caption_key)
        options = dataclasses.replace(options, caption_key=coco.CAPTIONS)
    else:
        rows = tables.read_rows(path, file, options.caption_key)
    return pairs_of_rows(rows, path, file, root, options)
