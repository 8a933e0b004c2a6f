"""Features of many images and captions, from towers compiled once for one batch size."""
import numpy as np
from mindspore import Tensor, mutable

from hcma.models.batched import in_batches
from hcma.models.hcma import LevelScores


class Encoder:
    """Turns pictures and captions into the features of ``model``, and features into scores, block by block."""

    def __init__(self, model, recipe, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.batch = recipe.evaluate.batch_size
        self.levels = model.levels
        self.scales = np.exp(model.log_scale.asnumpy().astype(np.float64))
        self.all_pairs = LevelScores(model.levels).set_train(False)
        self.own_pairs = LevelScores(model.levels, pairs=True).set_train(False)

    def images(self, pictures, total):
        """An iterable of ``total`` pictures (S, S, 3) uint8 to a tuple of arrays (total, ...)."""
        return in_batches(self.model.image_tower, ((picture,) for picture in pictures), self.batch, total, 'images')

    def texts(self, captions):
        """A list of N captions to a tuple of arrays (N, ...)."""
        ids, lengths = self.tokenizer.encode(captions)
        return in_batches(self.model.text_tower, zip(ids, lengths), self.batch, len(captions), 'captions')

    def score_pairs(self, text, image):
        """Scaled scores of row i of ``text`` with row i of ``image``, (levels, N)."""
        count, parts = len(text[0]), []
        for start in range(0, count, self.batch):
            scores = self.own_pairs(padded_block(text, start, self.batch), padded_block(image, start, self.batch))
            parts.append(np.stack([score.asnumpy() for score in scores])[:, :count - start])
        return np.concatenate(parts, 1) * self.scales[:, None]

    def score_block(self, text, image):
        """Scaled scores of two blocks of Tensors from ``padded_block``, (levels, T, I) float64."""
        return np.stack([score.asnumpy() for score in self.all_pairs(text, image)]) * self.scales[:, None, None]


def padded_block(features, start, size):
    """Rows ``start`` to ``start + size`` of every array as Tensors, the end filled up with zero rows."""
    parts = tuple(feature[start:start + size] for feature in features)
    missing = size - len(parts[0])
    if missing:
        parts = tuple(np.concatenate((part, np.zeros((missing,) + part.shape[1:], part.dtype))) for part in parts)
    return mutable(tuple(Tensor(np.ascontiguousarray(part)) for part in parts))


def take(features, rows):
    """The features of ``rows``."""
    return tuple(feature[rows] for feature in features)
