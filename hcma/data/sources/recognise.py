"""Which format a source has, told from its content rather than its name."""
import glob
import json
import os
import re
import tarfile

from hcma.data.sources import flickr
from hcma.data.sources.tables import DELIMITERS
from hcma.data.sources.text import open_text
from hcma.errors import InputError

_HEAD = 1 << 16  # characters looked at
_COCO = re.compile(r'"(images|annotations|info|licenses)"\s*:\s*[\[{]')


def recognise(path):
    """Return the format of the source at ``path``, or raise ``InputError``."""
    if os.path.isdir(path):
        return 'tar' if tars_of(path) else _recognise_folder(path)
    if tars_of(path) != [path]:
        return 'tar'
    require_source(path, None)
    return 'tar' if tarfile.is_tarfile(path) else _recognise_text(path)


def require_source(path, kind):
    """Raise ``InputError`` if nothing is at ``path``, or it cannot be of the format ``kind``."""
    if kind == 'tar' and tars_of(path) != [path] and tars_of(path):
        return
    if not os.path.exists(path):
        raise InputError(f'{path}: no such file or folder')
    if os.path.isdir(path) != (kind == 'folder'):
        raise InputError(f'{path}: is not of the format {kind}')
    if os.path.getsize(path) == 0:
        raise InputError(f'{path}: is empty')


def tars_of(path):
    """Return the sorted tars in the folder ``path``, the files that match it as a glob, or else ``[path]``."""
    if os.path.isdir(path):
        return sorted(glob.glob(os.path.join(glob.escape(path), '*.tar')))
    return [path] if os.path.exists(path) else sorted(glob.glob(path)) or [path]


def _recognise_folder(path):
    names = sorted(os.listdir(path))
    tables = [name for name in names if name.endswith(('.jsonl', '.csv', '.tsv'))]
    if tables and not any(name.endswith('.txt') for name in names):
        raise InputError(f'{path}: holds {", ".join(tables)}; pass one of them, '
                         f'or --format folder for images with a .txt beside each')
    return 'folder'


def _recognise_text(path):
    try:
        with open_text(path) as file:
            head = file.read(_HEAD).lstrip()
    except UnicodeError:
        head = ''
    first = head.split('\n', 1)[0]
    if head.startswith('{'):
        return 'jsonl' if _is_row(first) or not _COCO.search(head) else 'coco'
    if head.startswith('['):
        raise InputError(f'{path}: a JSON list; write it as JSONL, one object a line')
    if flickr.ROW.match(first):
        return 'flickr'
    if '\0' not in head and any(delimiter in first for delimiter in DELIMITERS):
        return 'csv'
    raise InputError(f'{path}: not recognised as JSONL, CSV, TSV, COCO captions, Flickr tokens or tar; '
                     f'pass --format if it is one of them')


def _is_row(text):
    try:
        row = json.loads(text)
    except ValueError:
        return False
    return isinstance(row, dict) and 'annotations' not in row
