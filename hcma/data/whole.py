"""Output folders that appear whole or not at all: written beside their place, then renamed into it."""
import contextlib
import errno
import os
import shutil

from hcma.errors import InputError

_FULL = {errno.ENOSPC, errno.EDQUOT}


def require_free(path, overwrite, marker):
    """Raise ``InputError`` unless a folder may be put at ``path``.

    It may where nothing is, or an empty folder; with ``overwrite`` also over a folder that holds the file ``marker``,
    so that a mistyped path never costs the user's own files.
    """
    if not os.path.lexists(path):
        return
    if not os.path.isdir(path):
        raise InputError(f'{path}: is a file; give a folder that does not exist yet')
    if not _list(path):
        return
    if not overwrite:
        raise InputError(f'{path}: exists and is not empty; give another folder, or pass --overwrite')
    if not os.path.exists(os.path.join(path, marker)):
        raise InputError(f'{path}: holds no {marker}, so it is not replaced; give another folder')


@contextlib.contextmanager
def appearing_folder(path, overwrite, marker):
    """Give a folder to write in, which becomes ``path`` if the block ends well and vanishes otherwise.

    Raises ``InputError`` if ``path`` is taken (see ``require_free``), the place is not writable or the disk is full.
    """
    require_free(path, overwrite, marker)
    place = os.path.realpath(path)
    partial = _beside(place, 'partial')
    try:
        shutil.rmtree(partial, ignore_errors=True)  # left by a run that was killed
        os.makedirs(partial)
        yield partial
        _move(partial, place)
    except OSError as error:
        reason = 'the disk is full' if error.errno in _FULL else error.strerror or error
        raise InputError(f'{path}: cannot be written: {reason}') from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _move(partial, place):
    if os.path.isdir(place) and _list(place):
        old = _beside(place, 'old')
        shutil.rmtree(old, ignore_errors=True)
        os.rename(place, old)
        os.rename(partial, place)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(partial, place)


def _beside(place, what):
    return os.path.join(os.path.dirname(place), f'.{os.path.basename(place)}.{what}')


def _list(path):
    try:
        return os.listdir(path)
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from error
