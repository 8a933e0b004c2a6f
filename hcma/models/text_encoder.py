"""The text encoder: token ids to word features and one sentence feature."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.models.directions import word_directions
from hcma.models.layers import LayerNorm, weighted_sum
from hcma.models.lora import freeze, linear_of
from hcma.models.transformer import EXCLUDED, Block, PostNormBlock, blocks_of


class TextEncoder(nn.Cell):
    """Ids (B, L) with their number of tokens (B,) to words (B, L, D), their mask (B, L) and sentence (B, D).

    Position 0 is the begin token, if there is one, and position ``length - 1`` the end token: both are found by
    position, so no token id has a meaning here. Nor has the padding's, unless ``config.padding`` gives one: then
    padding is read like a token. ``word_mask`` is 1 on words, 0 on begin, end and padding; a row of padding only
    (length 0) has no words and, before projection, a sentence of zeros.
    """

    def __init__(self, config, vocab_size, init, lora=None):
        super().__init__()
        linear = linear_of(config.train, lora, init)
        self.embedding = init.normal(vocab_size, config.width)
        self.position = init.normal(1, config.length, config.width, std=0.01)
        post = config.norm == 'post'
        self.input_norm = LayerNorm(config.width, config.norm_eps) if post else None
        self.blocks = blocks_of(config, init, lambda: word_directions(
            config.length, config.heads) if config.directions else None, linear, PostNormBlock if post else Block)
        self.norm = None if post else LayerNorm(config.width, config.norm_eps)
        self.pool, self.last, self.first_word = config.pool, config.length - 1, int(config.begin)
        self.masks_padding = config.padding is None
        self.word_layer = config.depth if config.word_layer is None else config.word_layer
        self.index = Tensor(np.arange(config.length, dtype=np.int32).reshape(1, -1))
        order = np.triu(np.full((config.length, config.length), EXCLUDED, np.float32), 1)
        self.order_bias = Tensor(order[None, None]) if config.causal else None
        freeze(self, config.train)

    def construct(self, ids_BL, length_B):
        length = length_B.reshape(-1, 1)
        present = ops.cast(self.index < length, ms.float32)
        word_mask = ops.cast(ops.logical_and(self.index >= self.first_word, self.index < length - 1), ms.float32)
        bias = self.order_bias
        if self.masks_padding:
            padding = ((1 - present) * EXCLUDED).reshape(-1, 1, 1, present.shape[1])
            bias = padding if bias is None else padding + bias
        x = ops.gather(self.embedding, ids_BL, 0) + self.position
        if self.input_norm is not None:
            x = self.input_norm(x)
        words = x
        for number, block in enumerate(self.blocks):
            x = block(x, bias)
            if number + 1 == self.word_layer:
                words = x
        if self.norm is not None:
            words, x = self.norm(words), self.norm(x)
        return words, word_mask, weighted_sum(self._share(present, length), x)

    def _share(self, present_BL, length_B1):
        """What share of the sentence each position has, (B, L)."""
        if self.pool == 'mean':
            return present_BL / ops.maximum(length_B1, 1)
        if self.pool == 'class':
            return present_BL * ops.cast(self.index < 1, ms.float32)
        place = length_B1 - 1 if self.pool == 'end' else ops.zeros_like(length_B1) + self.last
        return ops.cast(ops.equal(self.index, place), ms.float32)
