"""Pairs of twins: of two pictures and two captions, does each find its own? As in Winoground (Thrush et al., 2022)."""
import difflib

import numpy as np

from hcma.errors import InputError
from hcma.evaluation.choice import TIE, read_objects
from hcma.evaluation.features import take

KEYS = ('images', 'captions')
# In percent, of scores at random. Group: each of its two scores must be above both wrong ones, which 4 of the 24
# orders of four scores fulfil.
CHANCE = {'text': 25.0, 'image': 25.0, 'group': 100 / 6}


def read_twins(path):
    """The rows of a JSONL of twins: ``images`` (two paths, relative to the file) and ``captions`` (two texts, the
    first true of the first image only, the second of the second only).

    Raises ``InputError`` naming file, line and key.
    """
    return [_row(row, where) for row, where in read_objects(path, 'twins')]


def _row(row, where):
    for key in KEYS:
        values = row.get(key)
        if not isinstance(values, list) or len(values) != 2 or not all(isinstance(value, str) for value in values):
            near = [] if key in row else difflib.get_close_matches(key, row, 1)
            hint = f', did you mean its {near[0]!r}' if near else ''
            raise InputError(f'{where}: has no two texts under {key!r}{hint}; it has {", ".join(row)}')
        row[key] = [value.encode('utf-8', 'replace').decode() for value in values]
    return row


def twin_scores(encoder, rows, pictures):
    """Scaled scores of both captions (first axis) with both pictures of each row, (2, 2, levels, rows)."""
    names = {name: number for number, name in enumerate(dict.fromkeys(name for row in rows for name in row['images']))}
    captions = {text: number for number, text in
                enumerate(dict.fromkeys(text for row in rows for text in row['captions']))}
    image = encoder.images([pictures[name] for name in names], len(names))
    text = encoder.texts(list(captions))
    images = [take(image, [names[row['images'][side]] for row in rows]) for side in (0, 1)]
    texts = [take(text, [captions[row['captions'][side]] for row in rows]) for side in (0, 1)]
    return np.array([[encoder.score_pairs(one, other) for other in images] for one in texts])


def twin_metrics(scores, weightings):
    """{weighting: {'text', 'image', 'group'}} in percent of the rows of ``scores`` (2, 2, levels, rows).

    The text score counts rows in which each picture prefers its own caption, the image score those in which each
    caption prefers its own picture, the group score those in which both hold. A tie counts as wrong.
    """
    metrics = {}
    for name, weights in weightings.items():
        (first, wrong_image), (wrong_text, second) = np.tensordot(scores, weights, (2, 0))
        text = np.minimum(first - wrong_text, second - wrong_image) > TIE
        image = np.minimum(first - wrong_image, second - wrong_text) > TIE
        metrics[name] = {score: round(100 * float(right.mean()), 2)
                         for score, right in (('text', text), ('image', image), ('group', text & image))}
    return metrics
