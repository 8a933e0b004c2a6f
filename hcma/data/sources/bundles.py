"""Folders and tars in which files of one name belong together: ``000.jpg`` with ``000.txt`` (or ``000.json``).

A text file holds a caption a line; a JSON file holds an object with one of the usual caption fields. Members of a
tar are found once and later read where they lie, so the tar is never unpacked.
"""
import json
import os
import tarfile

from PIL import Image

from hcma.data.images import ImageRejected
from hcma.data.sources.pairs import NO_IMAGE, Blob, Reject, captioned
from hcma.data.sources.rows import CAPTION_KEYS
from hcma.errors import InputError

_TEXT_SUFFIXES = ('txt', 'text', 'caption', 'captions')
_IMAGE_SUFFIXES = {suffix[1:] for suffix, name in Image.registered_extensions().items() if name in Image.OPEN}


def read_folder(path, options):
    """Yield a ``Pair`` or ``Reject`` for each image or captions file under the folder ``path``, sorted by name."""
    bundles = {}
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith('.'))
        for name in names:
            full = os.path.join(folder, name)
            _add(bundles, os.path.relpath(full, path), Blob(full))
    for _, members in sorted(bundles.items()):
        yield from _pair(members, options, None, 1)


def read_tar(path, options):
    """Yield a ``Pair`` or ``Reject`` for each sample of the tar at ``path``; a line is a sample's place in it."""
    file, bundles, broken = os.path.basename(path), {}, None
    try:
        with tarfile.open(path, 'r:') as tar:
            try:
                for member in tar:
                    if member.isfile():
                        _add(bundles, member.name, Blob(path, member.offset_data, member.size))
            except (tarfile.TarError, EOFError) as error:
                broken = error
    except tarfile.TarError as error:
        raise InputError(f'{path}: not a plain tar ({error}); decompress it if it is compressed') from error
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from error
    for place, members in enumerate(bundles.values(), start=1):
        yield from _pair(members, options, file, place)
    if broken:
        yield Reject(file, len(bundles) + 1, '', f'broken tar: {broken}')


def _add(bundles, name, blob):
    """Put a file with its fellows: ``bundles`` is {name without suffix: {suffix: (name, blob)}}."""
    stem, suffix = os.path.splitext(name)
    if not os.path.basename(name).startswith('.'):
        bundles.setdefault(stem, {})[suffix[1:].lower()] = (name, blob)


def _pair(members, options, file, line):
    """Yield what the files of one name give: a pair, a reject, or nothing if they are neither image nor captions."""
    wanted = {options.image_key.lstrip('.').lower()} if options.image_key else _IMAGE_SUFFIXES
    image = next((members[suffix] for suffix in sorted(members) if suffix in wanted), None)
    try:
        source, captions = _captions(members, options.caption_key)
    except (ImageRejected, ValueError) as error:
        name = image[0] if image else next(iter(members.values()))[0]
        yield Reject(file or name, line, name, f'unreadable captions: {error}')
        return
    if image is not None:
        yield captioned(image[1], image[0], captions, file or source or image[0], line)
    elif source is not None:
        yield Reject(file or source, line, '', NO_IMAGE)


def _captions(members, key):
    """Return (name of the captions' file, captions), or (None, []) if there is none."""
    suffixes = [key.lstrip('.').lower()] if key else _TEXT_SUFFIXES
    for suffix in suffixes:
        if suffix in members:
            name, blob = members[suffix]
            return name, blob.read().decode('utf-8-sig').splitlines()
    if 'json' not in members:
        return None, []
    name, blob = members['json']
    fields = json.loads(blob.read().decode('utf-8-sig'))
    for field in [key] if key else CAPTION_KEYS:
        if isinstance(fields, dict) and fields.get(field):
            return name, fields[field]
    return None, []
