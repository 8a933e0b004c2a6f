"""Attention and the block around it are their formulas in float64, with finite weights whatever is excluded."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.models.layers import Init
from hcma.models.transformer import EXCLUDED, Block, SelfAttention

WIDTH, HEADS, COUNT = 6, 2, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, COUNT, WIDTH))
# Causal, with padding: what comes first is never excluded, as a begin token is not.
BIAS = (np.array([[0, 0, 0, EXCLUDED], [0, 0, EXCLUDED, EXCLUDED]])[:, None, None]
        + np.triu(np.full((COUNT, COUNT), EXCLUDED), 1))


def disturbed(cell):
    """``cell`` with no weight at a special value, and its weights by name in float64."""
    for parameter in cell.get_parameters():
        parameter.set_data(Tensor(parameter.asnumpy() + 0.3 * RNG.normal(size=parameter.shape), ms.float32))
    return cell, {parameter.name: parameter.asnumpy().astype(np.float64) for parameter in cell.get_parameters()}


def attention(x, bias, weights, prefix=''):
    """Head after head, row after row."""
    projected = x @ weights[prefix + 'query_key_value.weight'].T + weights[prefix + 'query_key_value.bias']
    mixed, size = np.zeros_like(x), WIDTH // HEADS
    for head in range(HEADS):
        query, key, value = (projected[..., start:start + size] for start in head * size + WIDTH * np.arange(3))
        for row in range(len(x)):
            score = query[row] @ key[row].T / np.sqrt(size) + (0 if bias is None else bias[row, 0])
            weight = np.exp(score - score.max(-1, keepdims=True))
            mixed[row, :, head * size:(head + 1) * size] = weight / weight.sum(-1, keepdims=True) @ value[row]
    return mixed @ weights[prefix + 'out.weight'].T + weights[prefix + 'out.bias']


def norm(x, weights, name):
    unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return unit * weights[f'{name}.gamma'] + weights[f'{name}.beta']


@pytest.mark.parametrize('bias', [None, BIAS], ids=['free', 'masked'])
def test_attention_is_the_reference_forward_and_backward(bias, numerical_gradient):
    cell, weights = disturbed(SelfAttention(WIDTH, HEADS, Init(0)))
    x, goal = Tensor(X, ms.float32), Tensor(RNG.normal(size=X.shape), ms.float32)
    given = None if bias is None else Tensor(bias, ms.float32)
    np.testing.assert_allclose(cell(x, given).asnumpy(), attention(X, bias, weights), atol=1e-5)
    found = ms.grad(lambda x: (cell(x, given) * goal).sum())(x).asnumpy()
    expected = numerical_gradient(lambda x: (attention(x, bias, weights) * goal.asnumpy()).sum(), X)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_block_is_attention_and_mlp_each_after_a_norm_and_added():
    cell, weights = disturbed(Block(WIDTH, HEADS, 8, 'relu', Init(0)))
    x = X + attention(norm(X, weights, 'attention_norm'), BIAS, weights, 'attention.')
    hidden = norm(x, weights, 'mlp_norm') @ weights['mlp.up.weight'].T + weights['mlp.up.bias']
    x = x + np.maximum(hidden, 0) @ weights['mlp.down.weight'].T + weights['mlp.down.bias']
    np.testing.assert_allclose(cell(Tensor(X, ms.float32), Tensor(BIAS, ms.float32)).asnumpy(), x, atol=2e-5)


def test_logits_of_ten_thousand_and_rows_with_all_excluded_stay_finite():
    cell, _ = disturbed(SelfAttention(WIDTH, HEADS, Init(0)))
    excluded = Tensor(np.full((2, 1, COUNT, COUNT), EXCLUDED), ms.float32)
    for x, bias in ((Tensor(300 * X, ms.float32), None), (Tensor(X, ms.float32), excluded)):
        value, gradient = ms.value_and_grad(lambda x: cell(x, bias).sum())(x)
        assert np.isfinite(value.asnumpy()) and np.isfinite(gradient.asnumpy()).all()
