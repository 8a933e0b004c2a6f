"""Reading text files whose encoding, line ends and byte order marks are not ours to choose."""
import re

from hcma.data.sources.pairs import BAD_ROW
from hcma.errors import InputError

NOT_UTF8 = f'{BAD_ROW}: not UTF-8'
_LONE_SURROGATE = re.compile('[\udc80-\udcff]')


def numbered_lines(path):
    """Yield ``(line number from 1, text without its end)`` for a UTF-8 (or marked UTF-16) file with any line ends.

    Bytes that are not UTF-8 come as lone surrogates, see ``has_bad_bytes``, so that one of them costs one row.
    """
    with open_text(path) as file:
        try:
            for number, text in enumerate(file, start=1):
                yield number, text.rstrip('\n')
        except UnicodeError as error:
            raise InputError(f'{path}: starts as UTF-16 but is not; save it as UTF-8') from error


def open_text(path):
    """Open ``path`` for reading text, or raise ``InputError``."""
    try:
        with open(path, 'rb') as file:
            mark = file.read(2)
        if mark in (b'\xff\xfe', b'\xfe\xff'):
            return open(path, encoding='utf-16')
        return open(path, encoding='utf-8-sig', errors='surrogateescape')
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from error


def has_bad_bytes(text):
    """Whether ``text`` held bytes that are not UTF-8."""
    return _LONE_SURROGATE.search(text) is not None
