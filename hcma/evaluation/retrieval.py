"""Retrieval in both directions over all pairs, block by block: no matrix of all scores is ever held.

A query's rank is the place of its first right candidate, the best score first. Where candidates tie it is the mean
over all orders of the tied, and recall at k is the share of these orders with a right one among the first k: scores
that say nothing get what guessing gets.
"""
import numpy as np
from tqdm import tqdm

from hcma import backend
from hcma.evaluation.features import padded_block

RECALLS = (1, 5, 10)


def retrieval(encoder, text, image, text_group, image_group, weightings, block=None):
    """Metrics of every weighting, {name: {'image_to_text': {...}, 'text_to_image': {...}}}, in percent and ranks.

    ``text`` and ``image`` are features (N, ...) and (M, ...); rows with equal group ids belong together.
    ``weightings`` {name: (levels,)} are sums of levels to score with. ``block`` rows are scored at once.
    """
    counts = retrieval_counts(encoder, text, image, text_group, image_group, weightings, block)
    return retrieval_metrics(counts, weightings)


def retrieval_metrics(counts, weightings):
    """The metrics of ``retrieval`` from ``retrieval_counts``."""
    text_counts, image_counts = counts
    return {name: {'image_to_text': rank_metrics(*image_counts[:, number]),
                   'text_to_image': rank_metrics(*text_counts[:, number])}
            for number, name in enumerate(weightings)}


def retrieval_counts(encoder, text, image, text_group, image_group, weightings, block=None):
    """What ``rank_metrics`` needs of every weighting: (3, weightings, N) for the texts, (3, weightings, M)."""
    score = BlockScores(encoder, text, image, np.array(list(weightings.values()), np.float64), block)
    best_image, best_text = _best_right(score, text_group, image_group)
    return _count(score, text_group, image_group, best_image, best_text)


def block_size(text, image):
    """Rows at once: what keeps the products of words and patches, where they are held at all, within some 16 MB."""
    held = len(text) > 1 and not backend.compiles_kernels()
    products = text[1].shape[1] * image[1].shape[1] if held else 1
    return int(np.clip(2 ** int(np.log2(4e6 / products) / 2), 16, 512))


class BlockScores:
    """Weighted scores (weightings, t, i) of the pairs of one block; the same numbers each time they are asked for."""

    def __init__(self, encoder, text, image, weights, block=None):
        self.encoder, self.weights, self.block = encoder, weights, block or block_size(text, image)
        self.text, self.image = text, image
        self.texts, self.images = len(text[0]), len(image[0])

    def rows(self):
        """(slice of texts, list of slices of images) for every block of texts."""
        images = [slice(start, start + self.block) for start in range(0, self.images, self.block)]
        for start in range(0, self.texts, self.block):
            yield slice(start, start + self.block), images

    def __call__(self, texts, images):
        scores = self.encoder.score_block(padded_block(self.text, texts.start, self.block),
                                          padded_block(self.image, images.start, self.block))
        scores = scores[:, :self.texts - texts.start, :self.images - images.start]
        scores = np.tensordot(self.weights, scores, 1)
        scores[np.isnan(scores)] = -np.inf  # of a broken model; any comparison with NaN would look like a success
        return scores


def _best_right(score, text_group, image_group):
    """The best score of a right candidate for every text (W, N) and every image (W, M)."""
    best_image = np.full((len(score.weights), score.texts), -np.inf)
    best_text = np.full((len(score.weights), score.images), -np.inf)
    for texts, blocks in score.rows():
        for images in blocks:
            right = text_group[texts, None] == image_group[None, images]
            if right.any():
                scores = np.where(right, score(texts, images), -np.inf)
                best_image[:, texts] = np.maximum(best_image[:, texts], scores.max(2))
                best_text[:, images] = np.maximum(best_text[:, images], scores.max(1))
    return best_image, best_text


def _count(score, text_group, image_group, best_image, best_text):
    """Of every query the wrong candidates above and level with the best right one, and the right ones level with it.

    Returns (3, W, N) for the texts and (3, W, M) for the images.
    """
    text_counts = np.zeros((3,) + best_image.shape, np.int64)
    image_counts = np.zeros((3,) + best_text.shape, np.int64)
    for texts, blocks in tqdm(list(score.rows()), desc='scores', unit='block', delay=2, leave=False):
        for images in blocks:
            right = text_group[texts, None] == image_group[None, images]
            scores = score(texts, images)
            for counts, best, axis in ((text_counts[..., texts], best_image[:, texts, None], 2),
                                       (image_counts[..., images], best_text[:, None, images], 1)):
                level = scores == best
                counts += [(~right & (scores > best)).sum(axis), (~right & level).sum(axis), (right & level).sum(axis)]
    return text_counts, image_counts


def rank_metrics(above, level, right):
    """Recalls in percent, and median and mean rank, from the counts (N,) of wrong above, wrong level, right level."""
    metrics = {f'r{k}': round(100 * float(found(k, above, level, right).mean()), 2) for k in RECALLS}
    rank = above + 1 + level / (right + 1)
    return {**metrics, 'median_rank': float(np.median(rank)), 'mean_rank': round(float(rank.mean()), 2)}


def found(k, above, level, right):
    """The share of the orders of ``level`` wrong and ``right`` right candidates with a right one in the first k."""
    missed = np.ones(len(above))
    for before in range(k):
        drawn = np.maximum(before - above, 0)  # of the tied, before this place
        wrong = np.maximum(level - drawn, 0)
        missed *= np.where(before < above, 1, wrong / np.maximum(level + right - drawn, 1))
    return 1 - missed
