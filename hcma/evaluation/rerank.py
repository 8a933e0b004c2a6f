"""Re-ranking: the fusion looks at the candidates that the levels find best, too slow as it is for all of them."""
import numpy as np
from tqdm import tqdm

from hcma.evaluation.features import take
from hcma.evaluation.retrieval import BlockScores, rank_metrics

PAIRS = 4096  # scored at a time


def reranked(encoder, text, image, text_group, image_group, weights, best, counts):
    """Retrieval metrics like those of ``retrieval`` when each query's ``best`` candidates are put in a new order.

    ``weights`` (terms,) of the levels choose the candidates; all of them, the fusion's among them, order these.
    ``counts`` (3, N) and (3, M) are those of ``retrieval_counts`` by the levels alone; a query whose right candidates
    are all beyond the best keeps them.
    """
    levels = weights[:len(encoder.levels)]
    counts = [direction.copy() for direction in counts]
    tops = best_candidates(BlockScores(encoder, text, image, levels[None]), best)
    for queries, (direction, top) in enumerate(zip(counts, tops)):
        pairs = np.repeat(np.arange(len(top)), top.shape[1]), top.reshape(-1)
        texts, images = pairs if queries == 0 else pairs[::-1]
        scores = pair_scores(encoder, text, image, texts, images, weights).reshape(top.shape)
        right = (text_group[texts] == image_group[images]).reshape(top.shape)
        found = right.any(1)
        direction[:, found] = _counts(scores[found], right[found])
    return {'image_to_text': rank_metrics(*counts[1]), 'text_to_image': rank_metrics(*counts[0])}


def best_candidates(score, best):
    """The ``best`` images of every text (N, best) and texts of every image (M, best), by one weighting's blocks."""
    by_text, by_image = _Best(score.texts, min(best, score.images)), _Best(score.images, min(best, score.texts))
    for texts, blocks in tqdm(list(score.rows()), desc='candidates', unit='block', delay=2, leave=False):
        for images in blocks:
            block = score(texts, images)[0]
            by_text.add(texts, images, block)
            by_image.add(images, texts, block.T)
    return by_text.candidate, by_image.candidate


class _Best:
    """The best candidates of every query so far."""

    def __init__(self, queries, best):
        self.score = np.full((queries, best), -np.inf)
        self.candidate = np.zeros((queries, best), np.int64)

    def add(self, queries, candidates, block):
        """A block of scores (queries, candidates), both named by slices."""
        number = np.broadcast_to(np.arange(candidates.start, candidates.start + block.shape[1]), block.shape)
        score = np.concatenate((self.score[queries], block), 1)
        number = np.concatenate((self.candidate[queries], number), 1)
        order = np.argsort(-score, 1, 'stable')[:, :self.score.shape[1]]
        self.score[queries] = np.take_along_axis(score, order, 1)
        self.candidate[queries] = np.take_along_axis(number, order, 1)


def pair_scores(encoder, text, image, texts, images, weights):
    """Weighted scores of the pairs (texts[i], images[i]), (pairs,)."""
    scores = []
    for start in tqdm(range(0, len(texts), PAIRS), desc='re-ranking', unit='block', delay=2, leave=False):
        rows = slice(start, start + PAIRS)
        scores.append(weights @ encoder.score_pairs(take(text, texts[rows]), take(image, images[rows])))
    return np.concatenate(scores)


def _counts(score, right):
    """Wrong above, wrong level and right level with the best right candidate, (3, queries)."""
    best = np.where(right, score, -np.inf).max(1, keepdims=True)
    level = score == best
    return np.stack([(~right & (score > best)).sum(1), (~right & level).sum(1), (right & level).sum(1)])
