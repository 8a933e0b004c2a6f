"""The graphs of an export: cells of operations that MindIR and ONNX know."""
import mindspore as ms
import numpy as np
from mindspore import nn, ops

from hcma.models.layers import NORM_EPS
from hcma.models.levels import LevelScores, text_features
from hcma.models.towers import Projection


class PortableProjection(nn.Cell):
    """``Projection`` with a root and a division: ONNX export of MindSpore knows no ``Rsqrt``."""

    def __init__(self, projection):
        super().__init__()
        self.linear = projection.linear

    def construct(self, x):
        rows = ops.cast(self.linear(x.reshape(-1, x.shape[-1])), ms.float32)
        rows = rows / ops.sqrt((rows * rows).sum(-1, keepdims=True) + NORM_EPS)
        return rows.reshape(x.shape[:-1] + (-1,))


class ImageGraph(nn.Cell):
    """Pictures (B, H, W, 3) uint8 to the image tower's features."""

    def __init__(self, tower):
        super().__init__(auto_prefix=False)
        self.tower = tower

    def construct(self, image):
        return self.tower(image)


class TextGraph(nn.Cell):
    """Ids (B, L) int32 and lengths (B,) int32 to the text tower's features."""

    def __init__(self, tower):
        super().__init__(auto_prefix=False)
        self.tower = tower

    def construct(self, ids, length):
        return self.tower(ids, length)


class ScoreGraph(nn.Cell):
    """Features of B texts, then of their B images, to the weighted score of every pair (B,)."""

    def __init__(self, model, texts, weights):
        super().__init__(auto_prefix=False)
        self.texts = texts
        self.levels = LevelScores(model.levels, pairs=True, kind=model.scores.kind)
        scale = np.exp(model.log_scale.asnumpy().astype(np.float64))
        bias = 0.0 if model.bias is None else model.bias.asnumpy()
        self.weights = tuple(float(weight) for weight in weights * scale)
        self.offset = float((weights * bias).sum())

    def construct(self, *features):
        scores = self.levels(features[:self.texts], features[self.texts:])
        total = self.offset
        for weight, score in zip(self.weights, scores):
            total = total + weight * score
        return total


def graphs_of(model, weights):
    """The graphs {'image', 'text', 'score'} of ``model``, whose projections become portable; ``weights`` (levels,)."""
    for tower in (model.image_tower, model.text_tower):
        for name, cell in list(tower.name_cells().items()):
            if isinstance(cell, Projection):
                setattr(tower, name, PortableProjection(cell))
    features = len(text_features(model.levels))
    graphs = {'image': ImageGraph(model.image_tower), 'text': TextGraph(model.text_tower),
              'score': ScoreGraph(model, features, weights)}
    return {name: graph.set_train(False) for name, graph in graphs.items()}
