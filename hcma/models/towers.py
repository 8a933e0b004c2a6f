"""The towers: an encoder each, and projections to the features that the levels compare."""
import math

from mindspore import nn

from hcma.models.image_encoder import ImageEncoder
from hcma.models.layers import Linear, normalise
from hcma.models.levels import image_features, text_features
from hcma.models.text_encoder import TextEncoder
from hcma.models.windows import Boxes, Spans, Windows, patch_windows, word_windows


class Projection(nn.Cell):
    """(..., D) to normalised rows (..., E) in float32."""

    def __init__(self, inputs, outputs, init, bias=False):
        super().__init__()
        self.linear = Linear(inputs, outputs, init, bias=bias, std=1 / math.sqrt(inputs))

    def construct(self, x):
        rows = normalise(self.linear(x.reshape(-1, x.shape[-1])))
        return rows.reshape(x.shape[:-1] + (-1,))


class ImageTower(nn.Cell):
    """Pictures (B, H, W, 3) uint8 to the features that ``image_features`` names.

    They are global (B, E), patch (B, P, E'), region (B, R, E'), all normalised, and the encoder's own patches
    (B, P, D) and global feature (B, D) for a fusion. One more input is, where regions are boxes, these, (B, R, 4) in
    patches; else it is ``kept`` (B, K) int32, the only patches that are seen.
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
        self.has_boxes = 'region' in self.names and config.regions == 'boxes'
        if 'region' in self.names:
            grid = config.image.grid
            self.regions = Boxes(grid) if self.has_boxes else Windows(patch_windows(grid, config.region_sizes))
            self.to_region = Projection(width, shared, init)

    def construct(self, image_BHW3, given=None):
        patch_BPD, global_BD = self.encoder(image_BHW3, None if self.has_boxes else given)
        features = ()
        for name in self.names:
            if name == 'global':
                features = features + (self.to_global(global_BD),)
            elif name == 'patch':
                features = features + (self.to_patch(patch_BPD),)
            elif name == 'region':
                region_BRD = self.regions(patch_BPD, given) if self.has_boxes else self.regions(patch_BPD)
                features = features + (self.to_region(region_BRD),)
            elif name == 'patch_state':
                features = features + (patch_BPD,)
            else:
                features = features + (global_BD,)
        return features


class TextTower(nn.Cell):
    """Ids (B, L) and lengths (B,), and where phrases are chunks their spans (B, Q, 2), to what ``text_features`` names.

    That is sentence (B, E), word (B, L, E') with mask (B, L), phrase (B, Q, E') with mask (B, Q), all normalised,
    and the encoder's own words (B, L, D) and sentence (B, D) for a fusion. A run of words is a phrase that counts if
    all of its words do.
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
        self.has_chunks = 'phrase' in self.names and config.phrases == 'chunks'
        if 'phrase' in self.names:
            length = config.text.length
            self.phrases = Spans(length) if self.has_chunks else Windows(word_windows(length, config.phrase_lengths))
            self.to_phrase = Projection(width, shared, init)

    def construct(self, ids_BL, length_B, span_BQ2=None):
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
                phrase_BQD = self.phrases(word_BLD, span_BQ2) if self.has_chunks else self.phrases(word_BLD)
                features = features + (self.to_phrase(phrase_BQD),)
            elif name == 'phrase_mask':
                present = self.phrases.present(span_BQ2) if self.has_chunks else self.phrases.whole(mask_BL)
                features = features + (present,)
            elif name == 'word_state':
                features = features + (word_BLD,)
            else:
                features = features + (sentence_BD,)
        return features
