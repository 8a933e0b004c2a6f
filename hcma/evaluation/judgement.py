"""How far the order of a model's scores agrees with people's ratings of how well captions fit their pictures."""
from dataclasses import dataclass

import numpy as np
from scipy import stats

from hcma.data.questions import read_about_images
from hcma.data.sources.pairs import clean_caption
from hcma.evaluation.features import take


@dataclass(frozen=True)
class Rated:
    """A caption of the picture at ``image`` with people's ``ratings``."""
    image: str
    caption: str
    ratings: tuple
    line: int


def read_ratings(path):
    """The (rows, rejects) of a JSONL of ``image``, ``caption`` and ``scores``: a number, or a list of numbers."""
    return read_about_images(path, _rated)


def _rated(row, image, line):
    caption = clean_caption(row['caption']) if isinstance(row.get('caption'), str) else ''
    if not caption:
        raise ValueError('no text under "caption"')
    ratings = row.get('scores')
    ratings = ratings if isinstance(ratings, list) else [ratings]
    numbers = [isinstance(rating, (int, float)) and not isinstance(rating, bool) and np.isfinite(rating)
               for rating in ratings]
    if not ratings or not all(numbers):
        raise ValueError('no number or list of numbers under "scores"')
    return Rated(image, caption, tuple(float(rating) for rating in ratings), line)


def pair_scores(encoder, rated, pictures, row):
    """The scaled score of every rated caption with its picture, ``pictures[row]``, by level: (levels, N)."""
    captions = {text: number for number, text in enumerate(dict.fromkeys(item.caption for item in rated))}
    text = encoder.texts(list(captions))
    image = encoder.images(pictures, len(pictures))
    return encoder.score_pairs(take(text, [captions[item.caption] for item in rated]), take(image, row))


def correlations(score, rated):
    """Kendall's tau-b and tau-c and Spearman's rho, in percent, of the scores (N,) with the ratings.

    Every rating is an observation of its own, with its pair's score: with three raters a pair counts three times, as
    is usual for Flickr8k-Expert. A correlation that is not defined, as all ratings are the same, is None.
    """
    observed = np.repeat(score, [len(item.ratings) for item in rated])
    ratings = np.array([rating for item in rated for rating in item.ratings])
    if len(set(ratings)) < 2 or len(set(observed)) < 2:
        return {'kendall_b': None, 'kendall_c': None, 'spearman': None}
    return {'kendall_b': _percent(stats.kendalltau(observed, ratings, variant='b')),
            'kendall_c': _percent(stats.kendalltau(observed, ratings, variant='c')),
            'spearman': _percent(stats.spearmanr(observed, ratings))}


def _percent(result):
    return round(100 * float(result.statistic), 2)
