"""Hard negatives are drawn by score and never among the positives; the matching loss is its definition."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from hcma.losses.matching import HardNegatives, Matching

POSITIVE = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], np.float32)


def drawn(score, positive, times, seed=0):
    cell = HardNegatives(seed)
    return np.stack([cell(Tensor(score, ms.float32), Tensor(positive))[0].asnumpy() for _ in range(times)])


def test_negatives_are_never_positives_however_well_they_score():
    columns = drawn(POSITIVE * 50, POSITIVE, 200)
    assert not POSITIVE[np.arange(4), columns].any()


def test_negatives_are_drawn_in_proportion_to_the_softmax_of_their_scores():
    score = np.log(np.tile([0.5, 0.3, 0.15, 0.05], (100, 1)))
    columns = drawn(score, np.zeros_like(score, dtype=np.float32), 100)
    share = np.bincount(columns.reshape(-1), minlength=4) / columns.size
    np.testing.assert_allclose(share, [0.5, 0.3, 0.15, 0.05], atol=0.02)


def test_draws_depend_on_the_seed_and_the_number_of_calls_alone():
    score, positive = np.zeros((6, 6)), np.eye(6, dtype=np.float32)
    first, again, other = (drawn(score, positive, 5, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len({tuple(row) for row in first}) == 5


def test_rows_without_any_negative_say_so():
    _, found = HardNegatives(0)(Tensor(np.zeros((2, 2)), ms.float32), Tensor([[1.0, 1.0], [0.0, 1.0]]))
    assert found.asnumpy().tolist() == [0, 1]


class Table(nn.Cell):
    """A fusion that looks the log-odds of (text, image) up."""

    def __init__(self, odds):
        super().__init__()
        self.odds = Tensor(odds, ms.float32)

    def construct(self, text, image):
        return self.odds[text[0], image[0]]


@pytest.mark.parametrize('with_texts', [False, True])
def test_loss_is_half_matched_pairs_and_half_wrong_ones(with_texts):
    """The scores leave one choice for every draw: image n+1 for text n, text n-1 for image n."""
    odds = np.random.default_rng(0).normal(size=(8, 4))
    score, at = np.full((4, 4), -1e3), np.arange(4)
    score[at, (at + 1) % 4] = 1e3
    inputs = [(Tensor(at.astype(np.int32)),)] * 2 + [Tensor(score, ms.float32), Tensor(np.eye(4, dtype=np.float32))]
    wrong = [odds[n, (n + 1) % 4] for n in at] + [odds[(n - 1) % 4, n] for n in at]
    if with_texts:
        inputs += [(Tensor((at + 4).astype(np.int32)),), Tensor([1.0, 0.0, 1.0, 0.0])]
        wrong += [odds[4, 0], odds[6, 2]]
    expected = 0.5 * (np.log1p(np.exp(-odds[at, at])).mean() + np.log1p(np.exp(wrong)).mean())
    assert Matching(Table(odds), 0)(*inputs).asnumpy() == pytest.approx(expected, rel=1e-5)
