"""Parts given with a row: ``boxes`` in its picture and ``chunks`` of its captions, and why some of them are none.

A row keeps its picture and captions whatever becomes of its parts; each part that cannot be used is a ``Reject``.
"""
import dataclasses
import json

from hcma.data.sources.pairs import Chunk, Reject, clean_caption

BOXES_KEY, CHUNKS_KEY = 'boxes', 'chunks'
BAD_PARTS = BAD_BOX, BAD_CHUNK = 'bad box', 'bad chunk'
_LARGEST = 1e9
_ROUNDING = 1  # pixels that a box may lie outside of its picture


def with_parts(pair, captions, fields):
    """Yield ``pair`` with the parts that the row ``fields`` give it, then a ``Reject`` for each that is none.

    ``captions`` is the row's value for the captions. What is a ``Reject`` already is passed on.
    """
    if isinstance(pair, Reject):
        yield pair
        return
    boxes, bad_boxes = parse_boxes(fields.get(BOXES_KEY))
    chunks, bad_chunks = parse_chunks(fields.get(CHUNKS_KEY), captions, [negative.text for negative in pair.negatives])
    yield dataclasses.replace(pair, boxes=boxes, chunks=chunks)
    for reason in bad_boxes + bad_chunks:
        yield Reject(pair.file, pair.lines[0], pair.name, reason)


def parse_boxes(value):
    """The boxes of a list of [x0, y0, x1, y1], and the reasons against the others."""
    value = _parsed(value)
    if value is None:
        return (), []
    if not isinstance(value, list):
        return (), [f'{BAD_BOX}: "{BOXES_KEY}" is no list of boxes [x0, y0, x1, y1]']
    good = [box for box in value if _is_box(box)]
    bad = [f'{BAD_BOX}: {_shown(box)} is not [x0, y0, x1, y1] in pixels with x0 < x1 and y0 < y1' for box in value
           if not _is_box(box)]
    return tuple(dict.fromkeys(tuple(map(float, box)) for box in good)), bad


def shares(boxes, size):
    """Boxes in pixels of a picture of ``size`` (width, height) as shares of its sides, in a list of lists, and the
    reasons against those that lie outside. What rounding put outside is cut off.
    """
    width, height = size
    inside, bad = [], []
    for x0, y0, x1, y1 in boxes:
        if min(x0, y0) < -_ROUNDING or x1 > width + _ROUNDING or y1 > height + _ROUNDING:
            bad.append(f'{BAD_BOX}: {_shown([x0, y0, x1, y1])} is outside the picture of {width} x {height} pixels')
            continue
        box = [max(x0, 0) / width, max(y0, 0) / height, min(x1, width) / width, min(y1, height) / height]
        if box[0] < box[2] and box[1] < box[3]:
            inside.append([round(share, 6) for share in box])
    return inside, bad


def parse_chunks(value, captions, negatives=()):
    """The ``Chunk``s of a mapping from texts to lists of [start, end], and the reasons against the others.

    Instead of the mapping a list parallel to ``captions`` will do; with one caption that is no list, its own chunks.
    """
    value = _parsed(value)
    if value is None:
        return (), []
    texts = captions if isinstance(captions, list) else [captions]
    if isinstance(value, list):
        value = value if isinstance(captions, list) else [value]
        if len(value) != len(texts):
            return (), [f'{BAD_CHUNK}: {len(value)} lists of chunks for {len(texts)} captions']
        pairs = list(zip(texts, value))
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        return (), [f'{BAD_CHUNK}: "{CHUNKS_KEY}" is neither a mapping from captions nor a list parallel to them']
    known = {clean_caption(text) for text in [*texts, *negatives] if isinstance(text, str)}
    chunks, bad = [], []
    for text, spans in pairs:
        good, others = _chunks(text, spans, known)
        chunks += good
        bad += others
    return tuple(dict.fromkeys(chunks)), bad


def _chunks(text, spans, known):
    """The chunks of one text and the reasons against its other spans."""
    if not isinstance(text, str) or not spans:
        return [], []
    if clean_caption(text) not in known:
        return [], [f'{BAD_CHUNK}: "{text[:40]}" is no caption or negative of the row']
    if not isinstance(spans, list):
        return [], [f'{BAD_CHUNK}: {_shown(spans)} is no list of [start, end]']
    placed = [(span, _placed(text, span)) for span in spans]
    return ([chunk for _, chunk in placed if chunk is not None],
            [f'{BAD_CHUNK}: {_shown(span)} is no [start, end] around words of "{text[:40]}"' for span, chunk in placed
             if chunk is None])


def _placed(text, span):
    """The chunk of the cleaned text that ``span`` is in ``text``; None where it is not one."""
    if not _is_span(span) or span[1] > len(text):
        return None
    start, end = span
    start += len(text[start:end]) - len(text[start:end].lstrip())
    cleaned, words = clean_caption(text), clean_caption(text[start:end])
    start = len(clean_caption(text[:start] + 'x')) - 1
    whole = words and cleaned[start:start + len(words)] == words  # it may start inside a composed character
    return Chunk(cleaned, start, start + len(words)) if whole else None


def _is_box(box):
    return (isinstance(box, list) and len(box) == 4 and all(map(_is_number, box))
            and box[0] < box[2] and box[1] < box[3])


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


def _is_span(span):
    return (isinstance(span, list) and len(span) == 2 and all(type(place) is int for place in span)
            and 0 <= span[0] < span[1])


def _parsed(value):
    """What a field of a table spells in JSON; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _shown(value):
    return json.dumps(value)[:60]
