"""Attention as a score: every word's context among the patches of an image, and how well the word fits it.

The words attend with the softmax of their cosines, as in SCAN (Lee et al., 2018) and GLoRIA (Huang et al., 2021).
"""
from mindspore import nn, ops

from hcma.models.layers import normalise

# What the cosines are multiplied by before the softmax over the patches.
SHARPNESS = 20.0


class Contexts(nn.Cell):
    """The context of each word among the patches of its own image: (B, L, E), (B, P, E) to normalised (B, L, E)."""

    def __init__(self):
        super().__init__()
        # ops.softmax does not compile inside a gradient that a bprop takes (losses/blockwise.py).
        self.softmax = ops.Softmax(-1)

    def construct(self, word_BLE, patch_BPE):
        weight_BLP = self.softmax(SHARPNESS * ops.bmm(word_BLE, patch_BPE.swapaxes(1, 2)))
        return normalise(ops.bmm(weight_BLP, patch_BPE))


class AttentionPairs(nn.Cell):
    """Mean over words of the cosine of a word with its context: (B, L, E), (B, L), (B, P, E) to (B,)."""

    def __init__(self):
        super().__init__()
        self.contexts = Contexts()

    def construct(self, word_BLE, mask_BL, patch_BPE):
        fit_BL = (self.contexts(word_BLE, patch_BPE) * word_BLE).sum(-1)
        return (fit_BL * mask_BL).sum(1) / ops.maximum(mask_BL.sum(1), 1.0)


class Attention(nn.Cell):
    """``AttentionPairs`` of every text with every image: (T, L, E), (T, L), (I, P, E) to (T, I)."""

    def __init__(self):
        super().__init__()
        self.contexts = Contexts()

    def construct(self, word_TLE, mask_TL, patch_IPE):
        texts, words, width = word_TLE.shape
        images = patch_IPE.shape[0]
        every = ops.broadcast_to(word_TLE.reshape(1, texts * words, width), (images, texts * words, width))
        fit = (self.contexts(every, patch_IPE) * every).sum(-1).reshape(images, texts, words)
        return ((fit * mask_TL).sum(2) / ops.maximum(mask_TL.sum(1), 1.0)).swapaxes(0, 1)

    def floats(self, word_shape, patch_shape):
        """How many numbers are in memory for each pair: weights and contexts of every word."""
        return 4 * word_shape[1] * (patch_shape[1] + word_shape[2])


class InPair(nn.Cell):
    """Cosines of each word with the context of every word of its own pair, (B, L, L); SPARC (Bica et al., 2024).

    Nothing grows with the square of the batch: the contrast is between the words of one caption.
    """

    def __init__(self):
        super().__init__()
        self.contexts = Contexts()

    def construct(self, word_BLE, patch_BPE):
        return ops.bmm(word_BLE, self.contexts(word_BLE, patch_BPE).swapaxes(1, 2))
