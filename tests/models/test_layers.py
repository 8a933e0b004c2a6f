"""The small layers are what their formulas say, and stay finite where the formulas do not."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from hcma.kernels.build import SWITCH
from hcma.models.layers import ACTIVATIONS, Affine, Init, LayerNorm, Linear, normalise

RNG = np.random.default_rng(0)


def test_normalised_rows_have_length_one_whatever_their_scale():
    rows = RNG.normal(size=(5, 7)) * np.array([[1e-3], [0.1], [1], [1e3], [1e6]])
    expected = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    np.testing.assert_allclose(normalise(Tensor(rows, ms.float32)).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_zero_row_stays_zero_with_a_finite_gradient():
    rows = Tensor(np.zeros((2, 4)), ms.float32)
    toward = Tensor(RNG.normal(size=(2, 4)), ms.float32)
    assert not normalise(rows).asnumpy().any()
    assert np.isfinite(ms.grad(lambda x: (normalise(x) * toward).sum())(rows).asnumpy()).all()


def test_half_precision_rows_are_normalised_in_float32():
    """The squares of these rows overflow float16."""
    rows = Tensor(np.full((1, 300), 1000), ms.float16)
    np.testing.assert_allclose(normalise(rows).asnumpy(), 1 / np.sqrt(300), rtol=1e-6)


def test_linear_is_its_formula():
    x, linear = RNG.normal(size=(3, 6)), Linear(6, 4, Init(0))
    linear.bias.set_data(Tensor(RNG.normal(size=4), ms.float32))
    expected = x @ linear.weight.asnumpy().T + linear.bias.asnumpy()
    np.testing.assert_allclose(linear(Tensor(x, ms.float32)).asnumpy(), expected, atol=1e-6)


@pytest.mark.parametrize('transposed', [True, False])
@pytest.mark.parametrize('relu', [True, False])
def test_fused_affine_is_its_formula_forward_and_backward(transposed, relu, monkeypatch):
    x, weight, bias, goal = (RNG.normal(size=size) for size in ((5, 6), (6, 4), 4, (5, 4)))
    product = x @ weight + bias
    kept = (product > 0) | (not relu)
    slope = goal * kept
    expected = [product * kept, slope @ weight.T, slope.T @ x if transposed else x.T @ slope, slope.sum(0)]
    inputs = [Tensor(array, ms.float32) for array in (x, weight.T if transposed else weight, bias)]
    toward = Tensor(goal, ms.float32)
    monkeypatch.delenv(SWITCH, raising=False)
    fused = Affine(transposed, relu)
    monkeypatch.setenv(SWITCH, '0')
    plain = Affine(transposed, relu)
    assert fused.fused is not None and plain.fused is None
    for affine in (fused, plain):
        gradients = ms.grad(lambda *given: (affine(*given) * toward).sum(), (0, 1, 2))(*inputs)
        for found, right in zip((affine(*inputs), *gradients), expected):
            np.testing.assert_allclose(found.asnumpy(), right, atol=1e-5)
    assert fused(*(ops.cast(given, ms.float16) for given in inputs)).dtype == ms.float16


def normed(x, gamma, beta):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta


def test_layer_norm_is_its_formula_forward_and_backward(numerical_gradient):
    norm, (x, toward) = LayerNorm(6), RNG.normal(size=(2, 2, 3, 6)) * 3
    gamma, beta = RNG.normal(size=(2, 6))
    norm.gamma.set_data(Tensor(gamma, ms.float32))
    norm.beta.set_data(Tensor(beta, ms.float32))
    x_BND, goal = Tensor(x, ms.float32), Tensor(toward, ms.float32)
    np.testing.assert_allclose(norm(x_BND).asnumpy(), normed(x, gamma, beta), atol=1e-5)
    dx, (dgamma, dbeta) = ms.grad(lambda x: (norm(x) * goal).sum(), 0, (norm.gamma, norm.beta))(x_BND)
    for found, function, at in [(dx, lambda x: (normed(x, gamma, beta) * toward).sum(), x),
                                (dgamma, lambda gamma: (normed(x, gamma, beta) * toward).sum(), gamma),
                                (dbeta, lambda beta: (normed(x, gamma, beta) * toward).sum(), beta)]:
        np.testing.assert_allclose(found.asnumpy(), numerical_gradient(function, at), atol=1e-4)


def test_row_without_variance_has_a_finite_gradient():
    norm = LayerNorm(4)
    assert np.isfinite(ms.grad(lambda x: (norm(x) ** 2).sum())(Tensor(np.ones((2, 4)), ms.float32)).asnumpy()).all()


@pytest.mark.parametrize('name, at_one', [('relu', 1.0), ('quick_gelu', 1 / (1 + np.exp(-1.702))),
                                          ('gelu', 0.8413447460685429)])
def test_activations_at_one_zero_and_far_out(name, at_one):
    y = ACTIVATIONS[name]()(Tensor([1.0, 0.0, 50.0, -50.0], ms.float32)).asnumpy()
    np.testing.assert_allclose(y, [at_one, 0, 50, 0], atol=1e-6)


@pytest.mark.parametrize('dtype, tolerance', [(ms.float32, 1e-6), (ms.float16, 2e-3)])
def test_the_gradient_of_quick_gelu_is_its_formula(dtype, tolerance):
    x, toward = np.array([0.0, 1.0, -1.0, 3.0, 50.0, -50.0]), np.array([1.0, 2.0, -3.0, 0.5, 1.0, 1.0])
    found = ms.grad(lambda x: (ACTIVATIONS['quick_gelu']()(x) * Tensor(toward, dtype)).sum())(Tensor(x, dtype))
    share = 1 / (1 + np.exp(-1.702 * x))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.asnumpy(), toward * share * (1 + 1.702 * x * (1 - share)), atol=tolerance)


def test_a_seed_fixes_what_is_drawn():
    first, again, other = (Init(seed).normal(3, 4).asnumpy() for seed in (7, 7, 8))
    assert first.tobytes() == again.tobytes() != other.tobytes()
