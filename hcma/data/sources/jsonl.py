"""JSONL: a JSON object a line, ``{"image": PATH, "captions": [..]}`` or ``{"image": PATH, "caption": ".."}``.

It may have ``negatives`` (one or a list), ``twin``, ``boxes`` and ``chunks`` besides.
"""
import json

from hcma.data.sources.pairs import BAD_ROW, Reject
from hcma.data.sources.text import NOT_UTF8, has_bad_bytes, numbered_lines


def read_rows(path, file):
    """Yield ``(line, dict)`` or ``Reject`` for each line of the JSONL file at ``path`` that is not blank."""
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        if has_bad_bytes(text):
            yield Reject(file, line, '', NOT_UTF8)
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield Reject(file, line, '', f'{BAD_ROW}: not JSON ({error})')
            continue
        yield (line, row) if isinstance(row, dict) else Reject(file, line, '', f'{BAD_ROW}: not a JSON object')
