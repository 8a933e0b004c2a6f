"""The text encoder: token ids to word features and one sentence feature."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.models.directions import word_directions
from hcma.models.layers import LayerNorm
from hcma.models.lora import freeze, linear_of
from hcma.models.transformer import EXCLUDED, Block, recompute_blocks


class TextEncoder(nn.Cell):
    """Ids (B, L) with their number of tokens (B,) to words (B, L, D), their mask (B, L) and sentence (B, D).

    Position 0 is the begin token and position ``length - 1`` the end token: both are found by position, so no
    token id (nor the padding's) has a meaning here. ``word_mask`` is 1 on words, 0 on begin, end and padding;
    a row of padding only (length 0) has no words and, before projection, a sentence of zeros.
    """

    def __init__(self, config, vocab_size, init, lora=None):
        super().__init__()
        linear = linear_of(config.train, lora, init)
        self.embedding = init.normal(vocab_size, config.width)
        self.position = init.normal(1, config.length, config.width, std=0.01)
        self.blocks = nn.CellList([
            Block(config.width, config.heads, config.mlp_width, config.activation, init,
                  word_directions(config.length, config.heads) if config.directions else None, linear)
            for _ in range(config.depth)])
        self.norm = LayerNorm(config.width)
        self.pool_end = config.pool == 'end'
        self.word_layer = config.depth if config.word_layer is None else config.word_layer
        self.index = Tensor(np.arange(config.length, dtype=np.int32).reshape(1, -1))
        order = np.triu(np.full((config.length, config.length), EXCLUDED, np.float32), 1)
        self.order_bias = Tensor(order[None, None]) if config.causal else None
        recompute_blocks(self.blocks, config.recompute)
        freeze(self, config.train)

    def construct(self, ids_BL, length_B):
        length = length_B.reshape(-1, 1)
        present = ops.cast(self.index < length, ms.float32)
        end = ops.cast(ops.equal(self.index, length - 1), ms.float32)
        word_mask = ops.cast(ops.logical_and(self.index > 0, self.index < length - 1), ms.float32)
        bias = ((1 - present) * EXCLUDED).reshape(-1, 1, 1, present.shape[1])
        if self.order_bias is not None:
            bias = bias + self.order_bias
        x = ops.gather(self.embedding, ids_BL, 0) + self.position
        words = x
        for number, block in enumerate(self.blocks):
            x = block(x, bias)
            if number + 1 == self.word_layer:
                words = x
        words, x = self.norm(words), self.norm(x)
        weight = end if self.pool_end else present / ops.maximum(length, 1)
        return words, word_mask, (x * ops.expand_dims(weight, -1)).sum(1)
