"""The towers: an encoder each, and projections to the features that the levels compare."""
import math

from mindspore import nn

from hcma.models.image_encoder import ImageEncoder
from hcma.models.layers import Linear, normalise
from hcma.models.levels import image_features, text_features
from hcma.models.text_encoder import TextEncoder
from hcma.models.windows import Windows, patch_windows, word_windows


class Projection(nn.Cell):
    """(..., D) to normalised rows (..., E) in float32."""

    def __init__(self, inputs, outputs, init, bias=False):
        super().__init__()
        self.linear = Linear(inputs, outputs, init, bias=bias, std=1 / math.sqrt(inputs))

    def construct(self, x):
        rows = normalise(self.linear(x.reshape(-1, x.shape[-1])))
        return rows.reshape(x.shape[:-1] + (-1,))


class ImageTower(nn.Cell):
    """Pictures (B, S, S, 3) uint8 to the features that ``image_features`` names.

    They are global (B, E), patch (B, P, E'), region (B, R, E'), all normalised, and the encoder's own patches
    (B, P, D) and global feature (B, D) for a fusion. With ``kept`` (B, K) int32 only these patches are seen.
    """

    def __init__(self, config, levels, init):
        super().__init__()
        self.encoder = ImageEncoder(config.image, init, config.lora)
        self.names = image_features(levels, config.fusion is not None)
        width, shared = config.image.width, config.word_embed_width
        self.to_global = Projection(width, config.embed_width, init)
        self.to_patch = self.to_region = None
        if 'patch' in self.names:
            self.to_patch = Projection(width, shared, init)
        if 'region' in self.names:
            self.regions = Windows(patch_windows(config.image.grid, config.region_sizes))
            self.to_region = Projection(width, shared, init)

    def construct(self, image_BSS3, kept_BK=None):
        patch_BPD, global_BD = self.encoder(image_BSS3, kept_BK)
        features = ()
        for name in self.names:
            if name == 'global':
                features = features + (self.to_global(global_BD),)
            elif name == 'patch':
                features = features + (self.to_patch(patch_BPD),)
            elif name == 'region':
                features = features + (self.to_region(self.regions(patch_BPD)),)
            elif name == 'patch_state':
                features = features + (patch_BPD,)
            else:
                features = features + (global_BD,)
        return features


class TextTower(nn.Cell):
    """Ids (B, L) and lengths (B,) to the features that ``text_features`` names.

    They are sentence (B, E), word (B, L, E') with mask (B, L), phrase (B, Q, E') with mask (B, Q), all normalised,
    and the encoder's own words (B, L, D) and sentence (B, D) for a fusion. A phrase counts if all of its words do.
    """

    def __init__(self, config, vocab_size, levels, init):
        super().__init__()
        self.encoder = TextEncoder(config.text, vocab_size, init, config.lora)
        self.names = text_features(levels, config.fusion is not None)
        width, shared = config.text.width, config.word_embed_width
        self.to_sentence = Projection(width, config.embed_width, init, config.text.projection_bias)
        self.to_word = self.to_phrase = None
        if 'word' in self.names:
            self.to_word = Projection(width, shared, init)
        if 'phrase' in self.names:
            self.phrases = Windows(word_windows(config.text.length, config.phrase_lengths))
            self.to_phrase = Projection(width, shared, init)

    def construct(self, ids_BL, length_B):
        word_BLD, mask_BL, sentence_BD = self.encoder(ids_BL, length_B)
        features = ()
        for name in self.names:
            if name == 'sentence':
                features = features + (self.to_sentence(sentence_BD),)
            elif name == 'word':
                features = features + (self.to_word(word_BLD),)
            elif name == 'word_mask':
                features = features + (mask_BL,)
            elif name == 'phrase':
                features = features + (self.to_phrase(self.phrases(word_BLD)),)
            elif name == 'phrase_mask':
                features = features + (self.phrases.whole(mask_BL),)
            elif name == 'word_state':
                features = features + (word_BLD,)
            else:
                features = features + (sentence_BD,)
        return features
