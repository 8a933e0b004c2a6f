"""The compiled kernels give what MindSpore's operations give: maxima, ties, gradients, NaN and all."""
import os
import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from hcma.kernels import build, cells
from hcma.losses import contrastive
from hcma.models import convolution, layers, scores
from hcma.training import adam

pytestmark = pytest.mark.skipif(build.library() is None, reason='no C++ compiler')

RNG = np.random.default_rng(0)
# (texts, words, images, patches, width): one of everything, no multiple of anything, and enough for threads
SIZES = [(1, 1, 1, 1, 1), (3, 9, 4, 17, 5), (16, 30, 16, 36, 65)]


def tensors(*shapes):
    return [Tensor(RNG.standard_normal(shape), ms.float32) for shape in shapes]


def gradients(cell, outputs, inputs):
    """Of a weighted sum of the given outputs of ``cell``, with respect to all inputs."""
    results = cell(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    weights = {number: Tensor(np.random.default_rng(number).standard_normal(results[number].shape), ms.float32)
               for number in outputs}

    def total(*inputs):
        results = cell(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        return sum((results[number] * weight).sum() for number, weight in weights.items())
    found = ms.grad(total, tuple(range(len(inputs))))(*inputs)
    return found if isinstance(found, tuple) else (found,)


def assert_equal_cells(one, other, outputs, inputs):
    for found, expected in zip(gradients(one, outputs, inputs), gradients(other, outputs, inputs)):
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize('texts, words, images, patches, width', SIZES)
def test_best_matches_is_its_twin(texts, words, images, patches, width):
    inputs = tensors((texts, words, width), (images, patches, width))
    found, expected = cells.BestMatches()(*inputs), scores.BestMatches()(*inputs)
    for number in range(4):
        np.testing.assert_allclose(found[number].asnumpy(), expected[number].asnumpy(), atol=1e-5)
    assert_equal_cells(cells.BestMatches(), scores.BestMatches(), (0, 2), inputs)


def test_among_equal_products_the_first_wins():
    inputs = [Tensor(np.ones((2, 5, 3)), ms.float32), Tensor(np.ones((2, 20, 3)), ms.float32)]
    _, patch_at, _, word_at = cells.BestMatches()(*inputs)
    assert not patch_at.asnumpy().any() and not word_at.asnumpy().any()


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_comes_through(value):
    word, patch = RNG.uniform(0.5, 1, (2, 5, 4)), RNG.uniform(0.5, 1, (3, 20, 4))
    word[1, 2, 3] = value
    found = cells.BestMatches()(Tensor(word, ms.float32), Tensor(patch, ms.float32))
    patch_best, _, word_best, _ = (out.asnumpy() for out in found)
    np.testing.assert_array_equal(patch_best[1, 2], np.full(3, value))
    assert np.isfinite(patch_best[0]).all() and np.isfinite(word_best[0]).all()
    expected = word_best[1] if value == -np.inf else np.full((3, 20), value)
    np.testing.assert_array_equal(word_best[1], expected)
    row = Tensor([[1.0, value, 2.0]], ms.float32)
    assert np.isnan(cells.LayerNorm(1e-5)(row, Tensor([1.0] * 3), Tensor([0.0] * 3))[0].asnumpy()).all()


@pytest.mark.parametrize('rows, columns, kinds', [(1, 1, 1), (5, 19, 2), (900, 300, 3)])
def test_targets_are_their_twins(rows, columns, kinds):
    own, other = (Tensor(RNG.integers(0, 9, (n, kinds)) * 2 ** 40) for n in (rows, columns))
    shares = tensors((rows,), (columns,))
    found, expected = (cell(own, other, *shares).asnumpy() for cell in (cells.Targets(), contrastive.Targets()))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('rows, columns, scale', [(1, 1, 1), (5, 19, 100), (900, 300, 30)])
def test_slopes_of_the_softmax_are_their_twins(rows, columns, scale):
    own, other = (Tensor(RNG.integers(0, 9, (n, 2))) for n in (rows, columns))
    shares = tensors((rows,), (columns,))
    score = scale * RNG.standard_normal((rows, columns))
    sums = [Tensor(np.logaddexp.reduce(score, axis), ms.float32) for axis in (1, 0)]
    inputs = (own, other, *shares, Tensor(score, ms.float32), *sums)
    found, expected = (cell(*inputs).asnumpy() for cell in (cells.SoftmaxSlopes(), contrastive.SoftmaxSlopes()))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_slopes_of_what_is_not_finite_are_not(value):
    group, score = Tensor([[0], [1]]), Tensor([[1.0, 2.0], [value, 3.0]], ms.float32)
    by_row, by_column, none = (Tensor(sums, ms.float32) for sums in ([3.0, value], [value, 3.0], [0.0, 0.0]))
    found = cells.SoftmaxSlopes()(group, group, none, none, score, by_row, by_column).asnumpy()
    assert np.isnan(found[1, 0]) and np.isfinite(found[0, 1])


@pytest.mark.parametrize('shape', [(1, 1), (7, 5), (3, 5, 64), (2100, 130)])
def test_layer_norm_is_its_twin(shape):
    x, gamma, beta = tensors(shape, shape[-1:], shape[-1:])
    x = x * 3 + 100
    compiled, standard = cells.LayerNorm(1e-5), ops.LayerNorm(-1, -1, 1e-5)
    np.testing.assert_allclose(compiled(x, gamma, beta)[0].asnumpy(), standard(x, gamma, beta)[0].asnumpy(), atol=1e-3)
    assert_equal_cells(compiled, standard, (0,), (x, gamma, beta))


@pytest.mark.parametrize('shape', [(1,), (2, 3, 5), (80, 4, 30, 30)])
def test_softmax_gradient_is_its_twin(shape):
    assert_equal_cells(cells.Softmax(), ops.Softmax(-1), (0,), tensors(shape))


@pytest.mark.parametrize('shape', [(1, 1, 1, 1), (2, 5, 3, 4), (3, 115, 12, 64)])
def test_swapped_axes_are_those_of_the_twin(shape):
    (x,) = tensors(shape)
    assert_equal_cells(cells.SwapMiddle(), layers.SwapMiddle(), (0,), (x,))
    for x in (x, ops.cast(x, ms.float16)):
        found = cells.SwapMiddle()(x)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found.asnumpy(), layers.SwapMiddle()(x).asnumpy())


@pytest.mark.parametrize('rows, places, each, width', [(1, 1, 1, 1), (5, 7, 3, 2), (150, 700, 9, 16)])
def test_gathered_sums_are_their_twins(rows, places, each, width):
    x, index = tensors((3, rows, width))[0], Tensor(RNG.integers(0, rows + 1, (places, each)), ms.int32)
    found, expected = (cell(x, index).asnumpy() for cell in (cells.GatherSum(), convolution.GatherSum()))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    short = ops.cast(x, ms.float16)
    assert cells.GatherSum()(short, index).dtype == ms.float16


@pytest.mark.parametrize('pixels, channels, stride', [((1, 1), 2, 1), ((1, 1), 1, 2), ((2, 5), 3, 2), ((5, 3), 3, 1),
                                                      ((1, 4), 2, 2), ((50, 50), 16, 2)])
def test_neighbourhoods_are_those_of_the_twin(pixels, channels, stride):
    one, other = convolution.Neighbourhoods(pixels, stride), convolution.Neighbourhoods(pixels, stride)
    one.gather_sum, other.gather_sum = cells.GatherSum(), convolution.GatherSum()
    x = tensors((3, pixels[0] * pixels[1], channels))
    np.testing.assert_array_equal(one(*x).asnumpy(), other(*x).asnumpy())
    assert_equal_cells(one, other, (0,), x)
    short = ops.cast(x[0], ms.float16)
    assert one(short).dtype == ms.float16
    np.testing.assert_array_equal(one(short).asnumpy(), other(short).asnumpy())


@pytest.mark.parametrize('shapes', [[()], [(3,), (2, 5)], [(900, 300), (1,), (7, 5, 3)]])
def test_square_sum_is_its_twin(shapes):
    arrays = tuple(tensors(*shapes))
    found = cells.SquareSum()(arrays)
    assert found.shape == ()
    np.testing.assert_allclose(float(found), float(adam.SquareSum()(arrays)), rtol=1e-5)
    np.testing.assert_allclose(float(found), sum(np.square(array.asnumpy(), dtype=float).sum() for array in arrays))


@pytest.mark.parametrize('value', [np.nan, np.inf, 2e38])
def test_the_sum_of_squares_shows_what_is_not_finite_or_overflows(value):
    assert not np.isfinite(float(cells.SquareSum()((Tensor([1.0, value, 2.0], ms.float32),))))


@pytest.mark.parametrize('shapes', [[()], [(3,), (2, 5)], [(900, 300), (1,), (7, 5, 3)]])
def test_adam_is_its_twin(shapes):
    numbers = tuple(Tensor(number, ms.float32) for number in (0.5, 0.1, 0.9, 0.98, 1e-3, 1.5))
    rates, decays = RNG.uniform(0, 1, (2, len(shapes)))
    start, gradients = [tensors(*shapes) for _ in range(3)], tuple(tensors(*shapes))
    start[2] = [moment * moment for moment in start[2]]
    updated = []
    for kind in (cells.Adam, adam.Adam):
        given = [tuple(Parameter(array.copy(), name=f'{part}.{number}') for number, array in enumerate(arrays))
                 for part, arrays in enumerate(start)]
        update = kind(rates, decays)
        for _ in range(3):
            update(*given, gradients, numbers)
        updated.append([parameter.asnumpy() for parameters in given for parameter in parameters])
    for found, expected in zip(*updated):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


class Everything(nn.Cell):
    """All kernels in one graph."""

    def __init__(self):
        super().__init__()
        self.norm, self.softmax, self.best_matches = cells.LayerNorm(1e-5), cells.Softmax(), cells.BestMatches()
        self.neighbourhoods = convolution.Neighbourhoods((3, 3), 2)

    def construct(self, word, patch, gamma, beta):
        patch = self.neighbourhoods(patch)[:, :, :word.shape[2]]
        best, _, other, _ = self.best_matches(self.norm(word, gamma, beta)[0], self.softmax(patch))
        return best, other


@pytest.mark.graph
def test_graph_is_pynative():
    inputs = tensors((4, 5, 6), (3, 9, 6), (6,), (6,))
    found = gradients(Everything(), (0, 1), inputs)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for one, other in zip(found, gradients(Everything(), (0, 1), inputs)):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


SUMS = '''
import mindspore as ms, numpy as np
from mindspore import Tensor
from hcma.kernels import cells
rng = np.random.default_rng(0)
word, patch = (Tensor(rng.standard_normal(shape), ms.float32) for shape in ((16, 30, 65), (16, 36, 65)))
out = cells.BestMatches()(word, patch)
both = cells.BestMatches().bprop(word, patch, out, out)
x = Tensor(rng.standard_normal((4200, 65)), ms.float32)
norm = cells.LayerNorm(1e-5)
out = norm(x, word[0, 0], word[0, 1])
print(cells.SquareSum()((x, word)))
print([y.asnumpy().tobytes().hex()[::97] for y in (*both, *norm.bprop(x, word[0, 0], word[0, 1], out, (x,)))])
'''


def test_results_do_not_depend_on_the_number_of_threads():
    one, three = (subprocess.run([sys.executable, '-c', SUMS], env={**os.environ, 'OMP_NUM_THREADS': threads},
                                 capture_output=True, text=True, check=True).stdout for threads in '13')
    assert one == three != ''


def test_without_compiler_or_cache_folder_there_is_no_library(monkeypatch, tmp_path):
    for variable, value in [('CXX', 'no-such-compiler'), ('CXX', 'false'), (build.SWITCH, '0'),
                            ('XDG_CACHE_HOME', '/dev/null')]:
        with monkeypatch.context() as patch:
            patch.setenv('XDG_CACHE_HOME', str(tmp_path))
            patch.setenv(variable, value)
            assert build.library.__wrapped__() is None


def test_a_library_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    path = build.library.__wrapped__()
    assert build.library.__wrapped__() == path and [str(file) for file in tmp_path.glob('hcma/*')] == [path]
    monkeypatch.setenv('CXX', str(tmp_path / 'other'))
    (tmp_path / 'other').symlink_to('/bin/false')
    assert build.library.__wrapped__() is None
