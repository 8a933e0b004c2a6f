"""Fine-grained choices: which of two nearly equal captions is true of the picture?"""
import difflib
import json
import os

import numpy as np

from hcma.data.images import ImageRejected
from hcma.data.pictures import decoded_pictures
from hcma.errors import InputError
from hcma.evaluation.features import take

KEYS = ('image', 'caption', 'negative_caption')
# Scores that differ by less are the same but for rounding.
TIE = 1e-5


def read_choices(path):
    """The rows of a JSONL of choices: ``image`` (relative to the file), ``caption``, ``negative_caption``, ``type``.

    Raises ``InputError`` naming file, line and key.
    """
    return [_row(row, where) for row, where in read_objects(path, 'choices')]


def read_objects(path, what):
    """The JSON objects of a JSONL of ``what``, a list of (dict, where: its file and line); never an empty one.

    Raises ``InputError`` naming file and line.
    """
    rows = []
    try:
        with open(path, encoding='utf-8-sig') as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = f'{path}, line {number}'
                    rows.append((_object(line, where), where))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, 'strerror', 'it is not UTF-8')
        raise InputError(f'{path}: cannot be read ({reason}); give a JSONL of {what}') from None
    if not rows:
        raise InputError(f'{path}: has no {what}')
    return rows


def _object(line, where):
    try:
        row = json.loads(line)
    except ValueError:
        raise InputError(f'{where}: is not JSON') from None
    if not isinstance(row, dict):
        raise InputError(f'{where}: is not a JSON object')
    return row


def _row(row, where):
    for key in KEYS:
        if not isinstance(row.get(key), str):
            near = difflib.get_close_matches(key, row, 1)
            hint = f', did you mean its {near[0]!r}' if near else ''
            raise InputError(f'{where}: has no text under {key!r}{hint}; it has {", ".join(row)}')
        row[key] = row[key].encode('utf-8', 'replace').decode()  # half of a surrogate pair, which JSON allows
    return {**row, 'type': str(row.get('type', 'all'))}


def load_pictures(rows, folder, decoder):
    """The pictures that ``rows`` name, {path: (H, W, 3) uint8}; a picture that cannot be used is None."""
    names = list(dict.fromkeys(row['image'] for row in rows))
    found = decoded_pictures([os.path.join(folder, name) for name in names], decoder)
    return {name: None if isinstance(picture, ImageRejected) else picture for name, (_, picture) in zip(names, found)}


def choice_margins(encoder, rows, pictures):
    """How far each caption scores above its negative, by level: (levels, rows) of scaled scores."""
    names = {name: number for number, name in enumerate(dict.fromkeys(row['image'] for row in rows))}
    captions = {text: number for number, text in
                enumerate(dict.fromkeys(row[key] for row in rows for key in KEYS[1:]))}
    image = encoder.images([pictures[name] for name in names], len(names))
    text = encoder.texts(list(captions))
    shown = take(image, [names[row['image']] for row in rows])
    right, wrong = (encoder.score_pairs(take(text, [captions[row[key]] for row in rows]), shown) for key in KEYS[1:])
    return right - wrong, right, wrong


def choice_metrics(margins, rows, weightings):
    """Accuracy in percent, ties ½: {weighting: {'macro', 'overall', 'types': {type: accuracy}}}."""
    types = np.array([row['type'] for row in rows])
    metrics = {}
    for name, weights in weightings.items():
        correct = accuracy(np.tensordot(weights, margins, 1))
        by_type = {kind: round(100 * float(correct[types == kind].mean()), 2) for kind in sorted(set(types))}
        metrics[name] = {'macro': round(float(np.mean(list(by_type.values()))), 2),
                         'overall': round(100 * float(correct.mean()), 2), 'types': by_type}
    return metrics


def accuracy(margin):
    """1 where the right caption scores higher, ½ for a tie, else 0."""
    return np.where(np.abs(margin) < TIE, 0.5, margin > 0)
