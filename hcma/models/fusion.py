"""Fusion of a text with an image: words attend to patches, and a head tells matched pairs from others.

As in ALBEF (Li et al., 2021), the head sees pairs that the cosines already find alike.
"""
import mindspore as ms
from mindspore import nn, ops

from hcma.models.layers import LayerNorm, Linear, mean_of_words
from hcma.models.transformer import MLP, CrossAttention


class FusionBlock(nn.Cell):
    """``word`` (B, L, D) plus what it finds among the patches, plus MLP, each after a layer norm; and the weights."""

    def __init__(self, width, heads, init):
        super().__init__()
        self.attention_norm, self.mlp_norm = LayerNorm(width), LayerNorm(width)
        self.attention = CrossAttention(width, heads, init)
        self.mlp = MLP(width, 2 * width, 'relu', init)

    def construct(self, word_BLD, patch_BPD):
        found, weights = self.attention(self.attention_norm(word_BLD), patch_BPD)
        x = word_BLD + found
        return x + self.mlp(self.mlp_norm(x)), weights


class Fusion(nn.Cell):
    """The log-odds that text i and image i match, (B,) in float32, for B pairs.

    ``construct(text, image)`` takes what ``text_parts`` and ``image_parts`` pick out of the towers' features. The fused
    words are averaged over the mask and joined with the product of sentence and global feature.
    ``attention(text, image)`` gives the weights of every block, a tuple of (B, H, L, P).
    """

    def __init__(self, config, text_names, image_names, init):
        super().__init__()
        width = config.text.width
        self.text_places = tuple(text_names.index(name) for name in ('word_state', 'word_mask', 'sentence_state'))
        self.image_places = tuple(image_names.index(name) for name in ('patch_state', 'global_state'))
        self.adapt = Linear(config.image.width, width, init)
        self.blocks = nn.CellList([FusionBlock(width, config.fusion.heads, init) for _ in range(config.fusion.depth)])
        self.norm = LayerNorm(2 * width)
        self.hidden, self.out = Linear(2 * width, width, init), Linear(width, 1, init)

    def construct(self, text, image):
        word_BLD, _ = self._fused(text, image)
        _, mask_BL, sentence_BD = text
        mean_BD = mean_of_words(word_BLD, mask_BL)
        x = self.norm(ops.concat((mean_BD, sentence_BD * ops.cast(self.adapt(image[1]), ms.float32)), -1))
        return ops.cast(self.out(ops.relu(self.hidden(x))).reshape(-1), ms.float32)

    def text_parts(self, text):
        """Of the text tower's features the encoder's words (B, L, D), their mask (B, L) and its sentence (B, D)."""
        return tuple([text[place] for place in self.text_places])

    def image_parts(self, image):
        """Of the image tower's features the encoder's patches (B, P, D) and its global feature (B, D)."""
        return tuple([image[place] for place in self.image_places])

    def attention(self, text, image):
        """The attention weights of every block, for heat maps and distillation."""
        return self._fused(text, image)[1]

    def _fused(self, text, image):
        batch, patches, width = image[0].shape
        patch_BPD = self.adapt(image[0].reshape(-1, width)).reshape(batch, patches, -1)
        x, maps = text[0], ()
        for block in self.blocks:
            x, weights = block(x, patch_BPD)
            maps = maps + (weights,)
        return x, maps
