"""The transformer blocks that both encoders are built from."""
import math

import mindspore as ms
from mindspore import nn, ops

from hcma.models.flash import flash_attention
from hcma.models.layers import ACTIVATIONS, LayerNorm, Linear, softmax, swap_middle

# Added to the attention scores of excluded positions: large enough to vanish, finite so that a row in which
# everything is excluded stays finite too.
EXCLUDED = -1e4


class Scores(nn.Cell):
    """Scaled products of queries and keys, (B, H, N, D'), (B, H, M, D') to (B, H, N, M), in float32 whatever they are.

    A float16 score would end at 65504. The backward pass casts anew, so that a step holds queries and keys in their own
    type only.
    """

    def __init__(self, head_width):
        super().__init__()
        self.scale = 1 / math.sqrt(head_width)
        self.product, self.transposed_product = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul(transpose_a=True)
        self.plain_product = ops.BatchMatMul()

    def construct(self, query, key):
        return self.product(ops.cast(query, ms.float32) * self.scale, ops.cast(key, ms.float32))

    def bprop(self, query, key, out, dout):
        dquery = self.plain_product(dout, ops.cast(key, ms.float32)) * self.scale
        dkey = self.transposed_product(dout, ops.cast(query, ms.float32) * self.scale)
        return ops.cast(dquery, query.dtype), ops.cast(dkey, key.dtype)


class SelfAttention(nn.Cell):
    """Multi-head self-attention of ``x`` (B, N, D); ``bias`` (B or 1, 1, N, N) is added to the scores.

    Where it is ``learned_bias``, it has a gradient.
    """

    def __init__(self, width, heads, init, linear=Linear, learned_bias=False):
        super().__init__()
        self.width, self.heads, self.head_width = width, heads, width // heads
        self.query_key_value = linear(width, 3 * width, init)
        self.out = linear(width, width, init)
        self.scores, self.context = Scores(self.head_width), ops.BatchMatMul()
        self.softmax, self.swap = softmax(), swap_middle()
        self.flash = flash_attention(heads, self.head_width, learned_bias)

    def construct(self, x, bias):
        batch, positions, width = x.shape
        projected = self.query_key_value(x.reshape(-1, width))
        if self.flash is not None and projected.dtype != ms.float32:
            query, key, value = ops.split(projected.reshape(batch, positions, 3 * width), width, -1)
            return self.out(self.flash(query, key, value, bias).reshape(-1, width)).reshape(x.shape)
        heads = self.swap(projected.reshape(batch, positions, 3 * self.heads, self.head_width))
        query, key, value = ops.split(heads, self.heads, 1)
        scores = self.scores(query, key)
        if bias is not None:
            scores = scores + bias
        weights = ops.cast(self.softmax(scores), value.dtype)
        mixed = self.swap(self.context(weights, value)).reshape(-1, width)
        return self.out(mixed).reshape(batch, positions, width)


class CrossAttention(nn.Cell):
    """Multi-head attention of words to patches: (B, L, D), (B, P, D) to (B, L, D) and its weights (B, H, L, P)."""

    def __init__(self, width, heads, init):
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.query = Linear(width, width, init)
        self.key_value = Linear(width, 2 * width, init)
        self.out = Linear(width, width, init)
        self.scores, self.context = Scores(self.head_width), ops.BatchMatMul()
        self.softmax, self.swap = softmax(), swap_middle()

    def construct(self, word_BLD, patch_BPD):
        batch, words, width = word_BLD.shape
        query = self._heads(self.query(word_BLD.reshape(-1, width)), batch, self.heads)
        heads = self._heads(self.key_value(patch_BPD.reshape(-1, width)), batch, 2 * self.heads)
        key, value = ops.split(heads, self.heads, 1)
        weights = self.softmax(self.scores(query, key))
        mixed = self.swap(self.context(ops.cast(weights, value.dtype), value)).reshape(-1, width)
        return self.out(mixed).reshape(batch, words, width), weights

    def _heads(self, x, batch, heads):
        return self.swap(x.reshape(batch, -1, heads, self.head_width))


class MLP(nn.Cell):
    """Two linear layers with an activation between them, on ``x`` (B, N, D)."""

    def __init__(self, width, hidden, activation, init, linear=Linear):
        super().__init__()
        self.up = linear(width, hidden, init)
        self.activation = ACTIVATIONS[activation]()
        self.down = linear(hidden, width, init)

    def construct(self, x):
        return self.down(self.activation(self.up(x.reshape(-1, x.shape[-1])))).reshape(x.shape)


class Block(nn.Cell):
    """``x`` (B, N, D) plus attention, plus MLP, each after a layer norm.

    ``directions`` is a cell that gives a bias of the attention's scores of this block's own, or None; ``linear`` makes
    the linear layers. Where ``x`` holds only some of the positions, ``chosen`` (B, N, positions) says which.
    """

    def __init__(self, width, heads, mlp_width, activation, init, directions=None, linear=Linear, eps=1e-5):
        super().__init__()
        self.directions = directions
        self.attention_norm = LayerNorm(width, eps)
        self.attention = SelfAttention(width, heads, init, linear, directions is not None)
        self.mlp_norm = LayerNorm(width, eps)
        self.mlp = MLP(width, mlp_width, activation, init, linear)

    def construct(self, x, bias=None, chosen=None):
        x = x + self.attention(self.attention_norm(x), self.biased(bias, chosen))
        return x + self.mlp(self.mlp_norm(x))

    def biased(self, bias, chosen):
        """``bias`` or None, and the block's own directions."""
        if self.directions is not None:
            own = self.directions() if chosen is None else self.directions.of(chosen)
            bias = own if bias is None else bias + own
        return bias


class PostNormBlock(Block):
    """``Block`` with each layer norm after the addition instead, as in BERT (Devlin et al., 2019)."""

    def construct(self, x, bias=None, chosen=None):
        x = self.attention_norm(x + self.attention(x, self.biased(bias, chosen)))
        return self.mlp_norm(x + self.mlp(x))


def blocks_of(config, init, directions, linear, block=Block):
    """The blocks of an encoder; ``directions()`` makes the bias of each, or gives None."""
    blocks = nn.CellList([block(config.width, config.heads, config.mlp_width, config.activation, init, directions(),
                                linear, config.norm_eps) for _ in range(config.depth)])
    recompute_blocks(blocks, config.recompute)
    return blocks


def recompute_blocks(blocks, policy):
    """Recompute blocks in the backward pass instead of keeping what is inside them: 'off', 'blocks' or every n-th."""
    if policy == 'off':
        return
    every = 1 if policy == 'blocks' else policy
    for number, block in enumerate(blocks):
        if number % every == 0:
            block.recompute()
