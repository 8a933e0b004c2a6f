"""Self-attention as one operation of Ascend's, which never holds the scores (FlashAttention, Dao et al., 2022)."""
import math

import mindspore as ms
from mindspore import nn, ops

from hcma import backend


class FlashAttention(nn.Cell):
    """Queries, keys and values (B, N, D), all float16 or bfloat16, to the heads' contexts (B, N, D).

    ``bias`` is None or (B or 1, 1, N or 1, N), negative where a key is hidden, else zero. Every position sees itself:
    where all keys are hidden, as in a text without words, the operation might give what is not finite.
    """

    def __init__(self, heads, head_width):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(head_width)

    def construct(self, query, key, value, bias):
        hidden = None
        if bias is not None:
            batch, positions = query.shape[:2]
            others = 1 - ops.eye(positions, positions, ms.float32)
            hidden = ops.cast(ops.broadcast_to(bias * others, (batch, 1, positions, positions)) < 0, ms.uint8)
        return ops.flash_attention_score(query, key, value, self.heads, attn_mask=hidden, scalar_value=self.scale)


def flash_attention(heads, head_width, learned_bias):
    """A cell ``FlashAttention``, or None where it cannot be."""
    return FlashAttention(heads, head_width) if backend.fuses_attention(head_width, learned_bias) else None
