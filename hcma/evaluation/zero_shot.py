"""Classification without training: which class name, put into prompts, fits a picture best?"""
import itertools

import numpy as np
from tqdm import tqdm

from hcma.evaluation.features import padded_block
from hcma.evaluation.retrieval import block_size, found

EPS = 1e-12


def class_scores(encoder, image, prompts, weights):
    """Scaled scores of every class with every picture, by level, (levels, classes, images) float32.

    ``image`` are features (I, ...), ``prompts`` (classes, templates) texts. At the level of sentences a class is the
    normalised mean of its prompts' sentences, as CLIP (Radford et al., 2021) has it; words have no such mean, so at the
    other levels it has the mean of its prompts' scores. Levels of ``weights`` (levels,) 0 are left out, as zeros.
    """
    classes, templates, images = len(prompts), len(prompts[0]), len(image[0])
    scores = np.zeros((len(encoder.levels), classes, images), np.float32)
    parts = [number for number in _used(encoder.levels, weights) if encoder.levels[number] != 'sentence_global']
    at_once = max(1, encoder.batch // templates)
    for start in tqdm(range(0, classes, at_once), desc='classes', unit='group', delay=2, leave=False):
        some = slice(start, min(start + at_once, classes))
        text = encoder.texts(list(itertools.chain.from_iterable(prompts[some])))
        if 'sentence_global' in encoder.levels:
            level = encoder.levels.index('sentence_global')
            scores[level, some] = encoder.scales[level] * _means(text[0], templates) @ image[0].T
        if parts:
            block = max(1, block_size(text, image) ** 2 // (at_once * templates))
            for first in range(0, images, block):
                pairs = encoder.score_block(padded_block(text, 0, at_once * templates),
                                            padded_block(image, first, block))
                pairs = pairs[parts, :len(text[0]), :images - first]
                scores[parts, some, first:first + block] = pairs.reshape(
                    len(parts), -1, templates, pairs.shape[2]).mean(2)
    return scores


def needs_words(levels, weights):
    """Whether a level with a weight compares more than whole texts with whole pictures."""
    return any(levels[number] != 'sentence_global' for number in _used(levels, weights))


def _used(levels, weights):
    return [number for number in range(len(levels)) if weights[number]]


def _means(sentence, templates):
    mean = sentence.reshape(-1, templates, sentence.shape[1]).mean(1)
    return mean / np.sqrt(np.square(mean).sum(1, keepdims=True) + EPS)


def zero_shot_metrics(scores, labels):
    """Of scores (classes, images) and the numbers (images,) of the right classes: the share in percent of pictures
    whose class is the best and among the best five, and the mean over classes of the former.

    Of tied classes each may come first; the best five of five classes or fewer are None.
    """
    best = top(scores, labels, 1)
    five = top(scores, labels, 5).mean() if len(scores) > 5 else None
    by_class = [best[labels == number].mean() for number in np.unique(labels)]
    return {'top1': _percent(best.mean()), 'top5': five if five is None else _percent(five),
            'mean_per_class': _percent(np.mean(by_class))}


def top(scores, labels, k):
    """How likely each picture's class is among its ``k`` best, (images,): 0 or 1 where no others score the same."""
    scores = np.where(np.isnan(scores), -np.inf, scores)
    right = scores[labels, np.arange(len(labels))]
    level = (scores == right).sum(0)
    return found(k, (scores > right).sum(0), level - 1, np.ones_like(level))


def confusion(scores, labels):
    """How many pictures of each class (row) were taken for each class (column), (classes, classes)."""
    counts = np.zeros((len(scores),) * 2, np.int64)
    np.add.at(counts, (labels, scores.argmax(0)), 1)
    return counts


def by_class(names, counts):
    """{class: {'images', 'top1', 'taken_for'}} of a ``confusion``: the share in percent that was right, and the class
    that its wrong pictures were most often taken for, or None. Classes without a picture are left out.
    """
    rows = {}
    for number in np.flatnonzero(counts.sum(1)):
        row = counts[number].copy()
        right, images, row[number] = int(row[number]), int(row.sum()), 0
        rows[names[number]] = {'images': images, 'top1': _percent(right / images),
                               'taken_for': names[row.argmax()] if row.any() else None}
    return rows


def _percent(share):
    return round(100 * float(share), 2)
