"""Flash attention is the written-out attention, by what its reference says of it: it runs on Ascend only."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from hcma import backend
from hcma.kernels.build import SWITCH
from hcma.models.flash import FlashAttention, flash_attention
from hcma.models.layers import Init
from hcma.models.transformer import EXCLUDED, SelfAttention


def as_documented(query, key, value, head_num, attn_mask, scalar_value):
    """What MindSpore's reference says of ``ops.flash_attention_score``."""
    batch, positions, width = query.shape
    q, k, v = (x.asnumpy().astype(float).reshape(batch, positions, head_num, -1).swapaxes(1, 2)
               for x in (query, key, value))
    scores = scalar_value * q @ k.swapaxes(2, 3)
    if attn_mask is not None:
        assert attn_mask.shape == (batch, 1, positions, positions) and attn_mask.dtype == ms.uint8
        scores = np.where(attn_mask.asnumpy() == 1, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    return Tensor(mixed.swapaxes(1, 2).reshape(batch, positions, width), query.dtype)


@pytest.mark.parametrize('kind', ['none', 'padding', 'causal', 'both'])
def test_flash_attention_is_what_is_written_out(monkeypatch, kind):
    rng, lengths = np.random.default_rng(0), np.array([6, 3, 0])
    order = np.triu(np.full((6, 6), EXCLUDED, np.float32), 1)[None, None]
    padding = np.where(np.arange(6) < lengths[:, None], 0, EXCLUDED).astype(np.float32).reshape(3, 1, 1, 6)
    bias = {'none': None, 'padding': padding, 'causal': order, 'both': order + padding}[kind]
    bias = None if bias is None else Tensor(bias)
    attention, x = SelfAttention(32, 2, Init(0)), Tensor(rng.standard_normal((3, 6, 32)), ms.float32)
    attention.query_key_value.compute = attention.out.compute = ms.float16
    expected = attention(x, bias).asnumpy()
    monkeypatch.setattr(ops, 'flash_attention_score', as_documented)
    attention.flash = FlashAttention(2, 16)
    found = attention(x, bias).asnumpy()
    assert np.isfinite(found).all()
    words = np.arange(6) < lengths[:, None] if kind in ('padding', 'both') else np.ones((3, 6), bool)
    np.testing.assert_allclose(found[words], expected[words], atol=2e-3)
    attention.query_key_value.compute = ms.float32  # which flash attention does not take
    monkeypatch.setattr(ops, 'flash_attention_score', None)
    attention(x, bias)


def test_flash_attention_is_for_16_bits_on_ascend_and_biases_without_gradient(monkeypatch):
    assert flash_attention(2, 16, learned_bias=False) is None
    monkeypatch.setattr(backend.ms, 'get_context', {'device_target': 'Ascend'}.get)
    assert flash_attention(2, 16, learned_bias=False) is not None
    assert flash_attention(2, 16, learned_bias=True) is flash_attention(2, 24, learned_bias=False) is None
    monkeypatch.setenv(SWITCH, '0')
    assert flash_attention(2, 16, learned_bias=False) is None
