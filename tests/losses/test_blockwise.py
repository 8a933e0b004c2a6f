"""Block by block the contrastive losses are those of all scores at once: values, and gradients element by element."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from hcma.losses.blockwise import PER_SCORE, BlockwiseSigmoid, BlockwiseSoftmax
from hcma.models.attention import Attention
from hcma.models.scores import LateInteraction, SentenceGlobal

BOTH_MODES = pytest.mark.parametrize('mode', [ms.PYNATIVE_MODE,
                                              pytest.param(ms.GRAPH_MODE, marks=pytest.mark.graph)])
BATCH, TEXTS, WORDS, PATCHES, WIDTH = 11, 4, 5, 3, 8


class Loss(nn.Cell):
    """The loss alone; the numbers that the blockwise cells keep for their gradient are dropped."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def construct(self, *inputs):
        return self.cell(*inputs)[0]


class Gradient(nn.Cell):
    def __init__(self, cell):
        super().__init__()
        self.gradient = ops.value_and_grad(Loss(cell), (0, 2, 3, 4, 7))

    def construct(self, *inputs):
        return self.gradient(*inputs)


def floats(score, text, image):
    """Room for blocks of TEXTS."""
    return TEXTS * len(image) * (PER_SCORE + score.floats(text.shape, image.shape))


def rows(rng, *shape):
    x = rng.normal(size=shape)
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def softmax_reference(cosine, scale, bias, group, negative, present, smoothing):
    """The loss, and its slopes by the cosines' scaled scores and the wrong texts, in float64."""
    score, batch = cosine * scale, len(cosine)
    positive = (group[:, None] == group).any(-1).astype(np.float64)
    target = (1 - smoothing) * positive / positive.sum(1, keepdims=True) + smoothing / batch
    by_text = np.exp(score) / np.exp(score).sum(1, keepdims=True)
    wrong = present * np.exp(negative)
    total = np.exp(score).sum(0) + wrong
    loss = np.log(np.exp(score).sum(1)).sum() + np.log(total).sum() - (score * (target + target.T)).sum()
    slope = by_text + np.exp(score) / total - target - target.T
    return loss / (2 * batch), slope / (2 * batch), wrong / total / (2 * batch)


def sigmoid_reference(cosine, scale, bias, group, negative, present, smoothing):
    score, batch = cosine * scale + bias, len(cosine)
    sign = 2.0 * (group[:, None] == group).any(-1) - 1
    loss = np.log1p(np.exp(-sign * score)).sum() + (present * np.log1p(np.exp(negative))).sum()
    return loss / batch, -sign / (1 + np.exp(sign * score)) / batch, present / (1 + np.exp(-negative)) / batch


@BOTH_MODES
@pytest.mark.parametrize('kind, smoothing', [('softmax', 0.0), ('softmax', 0.1), ('sigmoid', 0.0)])
def test_sentence_global_is_the_reference_in_float64(mode, kind, smoothing):
    rng = np.random.default_rng(0)
    text, image, scale, bias = rows(rng, BATCH, WIDTH), rows(rng, BATCH, WIDTH), 14.0, -2.0 * (kind == 'sigmoid')
    group = np.stack([np.arange(BATCH) % 7, 100 + np.arange(BATCH) // 2], 1)
    negative, present = rng.normal(size=BATCH) * 5, (np.arange(BATCH) % 3 > 0).astype(np.float64)
    reference = softmax_reference if kind == 'softmax' else sigmoid_reference
    loss, slope, dnegative = reference(text @ image.T, scale, bias, group, negative, present, smoothing)
    dbias = slope.sum() if kind == 'sigmoid' else 0.0  # no model has one with a softmax
    expected = [slope @ image * scale, slope.T @ text * scale, (slope * (text @ image.T)).sum(), dbias, dnegative]
    score = SentenceGlobal()
    room = floats(score, text, image)
    cell = BlockwiseSoftmax(score, smoothing, room) if kind == 'softmax' else BlockwiseSigmoid(score, room)
    inputs = [Tensor(x, ms.float32) for x in (text, np.ones((BATCH, 1)), image, scale, bias)]
    found, gradients = Gradient(cell)(*inputs, Tensor(group), Tensor(group), Tensor(negative, ms.float32),
                                      Tensor(present, ms.float32))
    assert found.asnumpy() == pytest.approx(loss, rel=1e-5)
    for gradient, wanted in zip(gradients, expected):
        np.testing.assert_allclose(gradient.asnumpy(), wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max() + 1e-7)


def test_scores_that_are_all_at_the_lowest_end_stay_finite_in_a_block_that_is_filled_up():
    text = rows(np.random.default_rng(0), 1, WIDTH).repeat(BATCH, 0)
    inputs = [Tensor(x, ms.float32) for x in (text, np.ones((BATCH, 1)), -text, 100.0, 0.0)]
    inputs += [*[Tensor(np.arange(BATCH).reshape(-1, 1))] * 2, *(Tensor(np.zeros(BATCH), ms.float32) for _ in range(2))]
    score = SentenceGlobal()
    loss, gradients = Gradient(BlockwiseSoftmax(score, floats=floats(score, text, text)))(*inputs)
    assert loss.asnumpy() == pytest.approx(np.log(BATCH), rel=1e-4)
    assert all(np.isfinite(gradient.asnumpy()).all() for gradient in gradients)


@BOTH_MODES
@pytest.mark.parametrize('score, kernels', [(LateInteraction, True), (LateInteraction, False), (Attention, True)])
def test_local_levels_in_blocks_are_those_of_one_block(mode, score, kernels, monkeypatch):
    if not kernels:
        monkeypatch.setattr('hcma.backend.library', lambda: None)
    rng, score = np.random.default_rng(1), score()
    text, image = rows(rng, BATCH, WORDS, WIDTH), rows(rng, BATCH, PATCHES, WIDTH)
    mask = np.arange(WORDS) < rng.integers(1, WORDS + 1, (BATCH, 1))
    group = np.stack([np.arange(BATCH) % 7, 100 + np.arange(BATCH)], 1)
    inputs = [*(Tensor(x, ms.float32) for x in (text, mask, image, 14.0, 0.0)), Tensor(group), Tensor(group),
              Tensor(rng.normal(size=BATCH), ms.float32), Tensor(np.arange(BATCH) % 2, ms.float32)]
    found, whole = (Gradient(BlockwiseSoftmax(score, 0.1, room))(*inputs) for room in
                    (floats(score, text, image), 2 ** 26))
    assert found[0].asnumpy() == pytest.approx(whole[0].asnumpy(), rel=1e-5)
    for one, other in zip(found[1], whole[1]):
        wanted = other.asnumpy()
        np.testing.assert_allclose(one.asnumpy(), wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max() + 1e-6)
