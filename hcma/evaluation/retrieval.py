"""Retrieval in both directions over all pairs, block by block: no matrix of all scores is ever held.

A query's rank is one more than the number of wrong candidates that score above its best right one; a tie counts half
in the rank, and for recall at k it counts as often as a random order of the tied would put the right one among the
first k.
"""
import numpy as np
from tqdm import tqdm

from hcma.evaluation.features import padded_block

RECALLS = (1, 5, 10)


def retrieval(encoder, text, image, text_group, image_group, weightings, block=None):
    """Metrics of every weighting, {name: {'image_to_text': {...}, 'text_to_image': {...}}}, in percent and ranks.

    ``text`` and ``image`` are features (N, ...) and (M, ...); rows with equal group ids belong together.
    ``weightings`` {name: (levels,)} are sums of levels to score with. ``block`` rows are scored at once.
    """
    block = block or block_size(text, image)
    weights = np.array(list(weightings.values()), np.float64)
    score = _BlockScores(encoder, text, image, weights, block)
    best_image, best_text = _best_right(score, text_group, image_group)
    text_counts, image_counts = _count_wrong(score, text_group, image_group, best_image, best_text)
    return {name: {'image_to_text': rank_metrics(*image_counts[:, number]),
                   'text_to_image': rank_metrics(*text_counts[:, number])}
            for number, name in enumerate(weightings)}


def block_size(text, image):
    """Rows at once: what keeps the products of words and patches within some 16 MB."""
    products = text[1].shape[1] * image[1].shape[1] if len(text) > 1 else 1
    return int(np.clip(2 ** int(np.log2(4e6 / products) / 2), 16, 512))


class _BlockScores:
    """Weighted scores (weightings, t, i) of the pairs of one block; the same numbers each time they are asked for."""

    def __init__(self, encoder, text, image, weights, block):
        self.encoder, self.weights, self.block = encoder, weights, block
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
        return np.tensordot(self.weights, scores, 1)


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


def _count_wrong(score, text_group, image_group, best_image, best_text):
    """How many wrong candidates are above and level with the best right one: (2, W, N) and (2, W, M)."""
    text_counts = np.zeros((2,) + best_image.shape, np.int64)
    image_counts = np.zeros((2,) + best_text.shape, np.int64)
    for texts, blocks in tqdm(list(score.rows()), desc='scores', unit='block', delay=2, leave=False):
        for images in blocks:
            right = text_group[texts, None] == image_group[None, images]
            scores = np.where(right, -np.inf, score(texts, images))
            for number, compare in enumerate((np.greater, np.equal)):
                text_counts[number, :, texts] += compare(scores, best_image[:, texts, None]).sum(2)
                image_counts[number, :, images] += compare(scores, best_text[:, None, images]).sum(1)
    return text_counts, image_counts


def rank_metrics(above, level):
    """Recalls in percent, and median and mean rank, of queries with so many wrong candidates above and level (N,)."""
    metrics = {f'r{k}': round(100 * float(np.clip((k - above) / (level + 1), 0, 1).mean()), 2) for k in RECALLS}
    rank = 1 + above + level / 2
    return {**metrics, 'median_rank': float(np.median(rank)), 'mean_rank': round(float(rank.mean()), 2)}
