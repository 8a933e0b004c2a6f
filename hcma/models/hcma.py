"""The model: two towers that end in normalised features of several levels, and a temperature for each level."""
import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hcma.models.image_encoder import ImageEncoder
from hcma.models.layers import Init, Linear, normalise
from hcma.models.scores import WordPatch, WordPatchPairs, sentence_global, sentence_global_pairs
from hcma.models.text_encoder import TextEncoder

MAX_LOG_SCALE = math.log(100)


class Projection(nn.Cell):
    """(..., D) to normalised rows (..., E) in float32."""

    def __init__(self, inputs, outputs, init):
        super().__init__()
        self.linear = Linear(inputs, outputs, init, bias=False, std=1 / math.sqrt(inputs))

    def construct(self, x):
        rows = normalise(self.linear(x.reshape(-1, x.shape[-1])))
        return rows.reshape(x.shape[:-1] + (-1,))


class ImageTower(nn.Cell):
    """Pictures (B, S, S, 3) uint8 to global (B, E) and, with the word-patch level, patches (B, P, E')."""

    def __init__(self, config, levels, init):
        super().__init__()
        self.encoder = ImageEncoder(config.image, init)
        self.to_global = Projection(config.image.width, config.embed_width, init)
        self.to_patch = None
        if 'word_patch' in levels:
            self.to_patch = Projection(config.image.width, config.word_embed_width, init)

    def construct(self, image_BSS3):
        patch_BPD, global_BD = self.encoder(image_BSS3)
        features = (self.to_global(global_BD),)
        if self.to_patch is not None:
            features = features + (self.to_patch(patch_BPD),)
        return features


class TextTower(nn.Cell):
    """Ids (B, L) and lengths (B,) to sentence (B, E) and, with the word-patch level, words (B, L, E'), mask (B, L)."""

    def __init__(self, config, vocab_size, levels, init):
        super().__init__()
        self.encoder = TextEncoder(config.text, vocab_size, init)
        self.to_sentence = Projection(config.text.width, config.embed_width, init)
        self.to_word = None
        if 'word_patch' in levels:
            self.to_word = Projection(config.text.width, config.word_embed_width, init)

    def construct(self, ids_BL, length_B):
        word_BLD, mask_BL, sentence_BD = self.encoder(ids_BL, length_B)
        features = (self.to_sentence(sentence_BD),)
        if self.to_word is not None:
            features = features + (self.to_word(word_BLD), mask_BL)
        return features


class LevelScores(nn.Cell):
    """Features of texts and images to one cosine score per level: a tuple of (B_text, B_image), or (B,) ``pairs``."""

    def __init__(self, levels, pairs=False):
        super().__init__()
        self.levels = tuple(levels)
        self.sentence_global = sentence_global_pairs if pairs else sentence_global
        self.word_patch = WordPatchPairs() if pairs else WordPatch()

    def construct(self, text, image):
        scores = ()
        for level in self.levels:
            if level == 'sentence_global':
                scores = scores + (self.sentence_global(text[0], image[0]),)
            else:
                scores = scores + (self.word_patch(text[1], text[2], image[1]),)
        return scores


class HCMA(nn.Cell):
    """Hierarchical cross-modal alignment: both towers and one learnable log-scale (log of 1/temperature) per level.

    ``construct(image (B, S, S, 3) uint8, ids (B, L) int32, length (B,) int32)`` gives a tuple with the scaled score
    ``cosine / temperature`` (B_text, B_image) of each level, in the order of ``levels``.
    """

    def __init__(self, config, vocab_size, levels, temperature, seed):
        super().__init__()
        init = Init(seed)
        self.levels = tuple(levels)
        self.image_tower = ImageTower(config, levels, init)
        self.text_tower = TextTower(config, vocab_size, levels, init)
        self.scores = LevelScores(levels)
        start = Tensor(np.full(len(self.levels), -math.log(temperature.initial), np.float32))
        self.log_scale = Parameter(start, requires_grad=temperature.learnable)

    def construct(self, image_BSS3, ids_BL, length_B):
        scores = self.scores(self.text_tower(ids_BL, length_B), self.image_tower(image_BSS3))
        scale = ops.exp(ops.cast(self.log_scale, ms.float32))
        scaled = ()
        for number, score in enumerate(scores):
            scaled = scaled + (score * scale[number],)
        return scaled

    def clamp_scales(self):
        """Keep every log-scale in [0, ln 100]; clamping inside the loss would cut its gradient and let it stick."""
        ops.assign(self.log_scale, ops.clamp(self.log_scale, 0.0, MAX_LOG_SCALE))


def build_model(recipe, vocab_size):
    """The model that ``recipe`` describes, for a tokenizer of ``vocab_size`` tokens, with weights drawn by its seed."""
    return HCMA(recipe.model, vocab_size, recipe.loss.levels, recipe.loss.temperature, recipe.seed)
