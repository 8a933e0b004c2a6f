"""The model: two towers that end in features of several levels, and a temperature for each level."""
import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hcma.models.fusion import Fusion
from hcma.models.layers import Init
from hcma.models.levels import LevelScores
from hcma.models.towers import ImageTower, TextTower

BIAS = -10.0  # at first every pair looks like the wrong one that nearly all of them are


class HCMA(nn.Cell):
    """Hierarchical cross-modal alignment: both towers and one learnable log-scale (log of 1/temperature) per level.

    ``construct(image (B, H, W, 3) uint8, ids (B, L) int32, length (B,) int32)`` gives a tuple with the scaled score
    ``cosine / temperature`` (B_text, B_image) of each level, in the order of ``levels``; where regions are boxes or
    phrases chunks, only the towers take these. ``fusion`` is None or the cell that tells matched pairs from others;
    ``log_variance`` is None or what balances the terms of the loss; ``bias`` is None or added to every scaled score,
    one for each level, as the sigmoid loss needs (Zhai et al., 2023).
    """

    def __init__(self, config, vocab_size, loss, seed):
        super().__init__()
        init = Init(seed)
        self.levels, self.terms = loss.levels, loss.terms(config)
        self.image_tower = ImageTower(config, self.levels, init)
        self.text_tower = TextTower(config, vocab_size, self.levels, init)
        self.scores = LevelScores(self.levels, kind=loss.score)
        start = Tensor(np.full(len(self.levels), -math.log(loss.temperature.initial), np.float32))
        self.log_scale = Parameter(start, requires_grad=loss.temperature.learnable)
        self.max_log_scale = -math.log(loss.temperature.minimum)
        self.bias = None
        if loss.contrast == 'sigmoid':
            self.bias = Parameter(Tensor(np.full(len(self.levels), BIAS, np.float32)))
        self.fusion = None
        if config.fusion is not None:
            self.fusion = Fusion(config, self.text_tower.names, self.image_tower.names, init)
        self.log_variance = None
        if loss.balance == 'uncertainty':
            self.log_variance = Parameter(Tensor(np.zeros(len(self.terms), np.float32)))

    def construct(self, image_BHW3, ids_BL, length_B):
        return self.scaled(self.scores(self.text_tower(ids_BL, length_B), self.image_tower(image_BHW3)))

    def scaled(self, scores):
        """A tuple of one cosine score per level, each divided by its level's temperature, and with its bias."""
        scaled = ()
        for number, score in enumerate(scores):
            scale, bias = self.line(number)
            scaled = scaled + (score * scale + bias,)
        return scaled

    def line(self, level):
        """Scale and bias of one level, float32 scalars: of its cosines they make its scaled scores."""
        bias = 0.0 if self.bias is None else ops.cast(self.bias, ms.float32)[level]
        return ops.exp(ops.cast(self.log_scale, ms.float32))[level], bias

    def clamp_scales(self):
        """Keep every temperature in its range; clamping inside the loss would cut its gradient and let it stick."""
        ops.assign(self.log_scale, ops.clamp(self.log_scale, 0.0, self.max_log_scale))


def build_model(recipe, vocab_size):
    """The model that ``recipe`` describes, for a tokenizer of ``vocab_size`` tokens, with weights drawn by its seed."""
    return HCMA(recipe.model, vocab_size, recipe.loss, recipe.seed)
