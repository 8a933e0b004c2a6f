"""CSV and TSV: a header line, then rows; the delimiter is found, and quotes that do not match cost no other row."""
import collections
import csv
import itertools
import json
import re

from hcma.data.sources.pairs import BAD_ROW, Reject
from hcma.data.sources.rows import CAPTION_KEYS
from hcma.data.sources.text import NOT_UTF8, has_bad_bytes, numbered_lines
from hcma.errors import InputError

DELIMITERS = '\t,;|'
_NULLS = {'', 'null', 'none', 'nan', 'n/a', r'\n'}
_IMAGE_NAME = re.compile(r'\.(jpe?g|png|webp|gif|bmp|tiff?)\b', re.IGNORECASE)
_LONGEST_RECORD = 20  # lines that one quoted field may span


def read_rows(path, file, caption_key=None):
    """Yield ``(line, dict)`` or ``Reject`` for each row of the table at ``path``; null values are None."""
    lines = numbered_lines(path)
    header = next((text for _, text in lines if text.strip()), '')
    delimiter = max(DELIMITERS, key=header.count)
    if delimiter not in header:
        raise InputError(f'{path}: the first line must name the columns, separated by tabs or commas; '
                         f'it is "{header[:80]}"')
    names = [_unquoted(name) for name in _parse(header, delimiter) or header.split(delimiter)]
    open_end = names[-1] == caption_key or names[-1] in CAPTION_KEYS
    for line, fields in _records(lines, delimiter, len(names)):
        if not any(field.strip() for field in fields):
            continue
        if open_end and len(fields) > len(names):  # a caption whose commas nobody quoted
            fields[len(names) - 1:] = [delimiter.join(fields[len(names) - 1:])]
        if any(map(has_bad_bytes, fields)):
            yield Reject(file, line, '', NOT_UTF8)
        elif len(fields) != len(names):
            yield Reject(file, line, '', f'{BAD_ROW}: {len(fields)} fields under a header of {len(names)}')
        else:
            yield line, dict(zip(names, map(_value, fields)))


def _records(lines, delimiter, width):
    """Yield ``(line, fields)``; a record takes several lines where a quoted field does."""
    ahead = collections.deque()
    while True:
        ahead.extend(itertools.islice(lines, _LONGEST_RECORD - len(ahead)))
        if not ahead:
            return
        fields, used = _record(ahead, delimiter, width)
        yield ahead[0][0], fields
        for _ in range(used):
            ahead.popleft()


def _record(ahead, delimiter, width):
    """Return the fields of the record that starts ``ahead``, and how many lines it takes.

    An opening quote without its match would swallow the rows below, so a record goes on over a line end only if it
    then closes with the right number of fields, and never over a line that names an image of its own.
    """
    text = ahead[0][1]
    if '"' not in text:
        return text.split(delimiter), 1
    joined = ''
    for used, (_, line) in enumerate(ahead, start=1):
        if used > 1 and _IMAGE_NAME.search(line):
            break
        joined = f'{joined}\n{line}' if used > 1 else line
        fields = _parse(joined, delimiter)
        if fields and len(fields) == width:
            return fields, used
    return [_unquoted(field) for field in text.split(delimiter)], 1


def _parse(text, delimiter):
    """Return the fields of ``text`` by the rules of CSV, or None if it breaks them."""
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=delimiter != '\t'))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _unquoted(field):
    field = field.strip()
    if field.count('"') % 2:
        return field.strip('"')
    if len(field) > 1 and field[0] == field[-1] == '"':
        return field[1:-1].replace('""', '"')
    return field


def _value(field):
    """Return a field's string, the list that it spells in JSON, or None for the ways of writing null."""
    field = field.strip()
    if field.lower() in _NULLS:
        return None
    if field.startswith('["'):
        try:
            return json.loads(field)
        except ValueError:
            return field
    return field
