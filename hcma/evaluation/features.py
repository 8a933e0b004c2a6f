"""Features of many images and captions, from towers compiled once for one batch size."""
import numpy as np
from mindspore import Tensor, mutable, nn

from hcma.data.captions import Captions
from hcma.data.regions import Regions
from hcma.models.batched import blocks, in_batches
from hcma.models.levels import LevelScores


class Encoder:
    """Turns pictures and captions into the features of ``model``, and features into scores, block by block."""

    def __init__(self, model, recipe, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.batch, self.grid = recipe.evaluate.batch_size, recipe.model.image.grid
        self.captions, self.regions = Captions(recipe.model, tokenizer), Regions(recipe.model)
        self.levels, self.terms = model.levels, model.terms
        self.text_names, self.image_names = model.text_tower.names, model.image_tower.names
        self.scales = np.exp(model.log_scale.asnumpy().astype(np.float64))
        self.all_pairs = LevelScores(model.levels, kind=model.scores.kind).set_train(False)
        self.own_pairs = PairScores(model).set_train(False)
        self.attention_maps = AttentionMaps(model.fusion).set_train(False)

    def images(self, pictures, total):
        """An iterable of ``total`` pictures (H, W, 3) uint8 without boxes to a tuple of arrays (total, ...)."""
        return self.images_with_boxes(((picture, *self.regions.none) for picture in pictures), total)

    def images_with_boxes(self, rows, total):
        """The same of tuples of a picture and what ``regions`` gives for its boxes."""
        return in_batches(self.model.image_tower, rows, self.batch, total, 'images')

    def image_blocks(self, pictures, total):
        """The same as ``images``, block by block: for more pictures than there is memory for."""
        rows = ((picture, *self.regions.none) for picture in pictures)
        return blocks(self.model.image_tower, rows, self.batch, total, 'images')

    def text_blocks(self, captions):
        """The features of N captions, block by block."""
        for start in range(0, len(captions), self.batch):
            yield self.texts(captions[start:start + self.batch])

    def texts(self, captions, chunks=None):
        """A list of N captions, and of each its chunks where there are any, to a tuple of arrays (N, ...)."""
        columns = self.captions(captions, chunks)
        return in_batches(self.model.text_tower, zip(*columns), self.batch, len(captions), 'captions')

    def score_pairs(self, text, image):
        """Scaled scores of row i of ``text`` with row i of ``image``, and of a fusion its log-odds, (terms, N)."""
        count, parts = len(text[0]), []
        for start in range(0, count, self.batch):
            scores = self.own_pairs(padded_block(text, start, self.batch), padded_block(image, start, self.batch))
            parts.append(np.stack([score.asnumpy() for score in scores])[:, :count - start])
        scales = np.append(self.scales, np.ones(len(self.terms) - len(self.levels)))
        return np.concatenate(parts, 1) * scales[:, None]

    def attention(self, text, image):
        """The attention of row i of ``text`` to row i of ``image``, both from ``padded_block``, in every fusion block.

        A dict from names of blocks to weights (B, L, P), the means of their heads.
        """
        maps = self.attention_maps(text, image)
        return {f'fusion block {number}': weights.asnumpy().mean(1) for number, weights in enumerate(maps, start=1)}

    def score_block(self, text, image):
        """Scaled scores of two blocks of Tensors from ``padded_block``, (levels, T, I) float64."""
        return np.stack([score.asnumpy() for score in self.all_pairs(text, image)]) * self.scales[:, None, None]


class PairScores(nn.Cell):
    """One score (B,) for each term of ``model``, of row i of the texts with row i of the images."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.levels = LevelScores(model.levels, pairs=True, kind=model.scores.kind)
        self.fusion = model.fusion

    def construct(self, text, image):
        scores = self.levels(text, image)
        if self.fusion is not None:
            scores = scores + (self.fusion(self.fusion.text_parts(text), self.fusion.image_parts(image)),)
        return scores


class AttentionMaps(nn.Cell):
    """The attention weights of every block of ``fusion``, (B, H, L, P), from features of both towers."""

    def __init__(self, fusion):
        super().__init__(auto_prefix=False)
        self.fusion = fusion

    def construct(self, text, image):
        return self.fusion.attention(self.fusion.text_parts(text), self.fusion.image_parts(image))


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
