"""Hard negatives are drawn by score and never among the positives, in blocks as at once; the matching loss is its
definition.
"""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from hcma.losses.blockwise import PER_SCORE
from hcma.losses.contrastive import positives
from hcma.losses.matching import BlockwiseHardNegatives, HardNegatives, Matching
from hcma.models.scores import SentenceGlobal

POSITIVE = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], np.float32)


def draws(score, positive, times, seed=0):
    """(times, 4, B): images of texts, whether there was one, and texts of images, whether there was one."""
    hard, drawn = HardNegatives(seed), []
    for _ in range(times):
        drawn.append(np.stack([part.asnumpy() for part in hard(Tensor(score, ms.float32), Tensor(positive))]))
        hard.count(Tensor(0))
    return np.stack(drawn)


def test_negatives_are_never_positives_however_well_they_score():
    image, _, text, _ = draws(POSITIVE * 50, POSITIVE, 60).astype(int).swapaxes(0, 1)
    assert not POSITIVE[np.arange(4), image].any() and not POSITIVE[text, np.arange(4)].any()


@pytest.mark.parametrize('place, turned', [(0, False), (2, True)])
def test_negatives_are_drawn_in_proportion_to_the_softmax_of_their_scores(place, turned):
    score = np.full((300, 300), -1e3)
    score[:, :4] = np.log([0.5, 0.3, 0.15, 0.05])
    drawn = draws(score.T if turned else score, np.zeros_like(score, np.float32), 30)[:, place].astype(int)
    share = np.bincount(drawn.reshape(-1), minlength=4) / drawn.size
    np.testing.assert_allclose(share, [0.5, 0.3, 0.15, 0.05], atol=0.02)


def test_draws_depend_on_the_seed_and_the_number_of_calls_alone():
    score, positive = np.zeros((6, 6)), np.eye(6, dtype=np.float32)
    first, again, other = (draws(score, positive, 5, seed)[:, 0] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len({tuple(row) for row in first}) == 5


def test_texts_and_images_without_any_negative_say_so():
    _, images, _, texts = HardNegatives(0)(Tensor(np.zeros((2, 2)), ms.float32), Tensor([[1.0, 1.0], [0.0, 1.0]]))
    assert images.asnumpy().tolist() == [0, 1] and texts.asnumpy().tolist() == [1, 0]


@pytest.mark.graph
@pytest.mark.parametrize('size', [1, 3, 4])
def test_blocks_draw_what_is_drawn_at_once(size):
    rng, batch = np.random.default_rng(0), 7
    text, image = (rng.normal(size=(batch, 5)) for _ in range(2))
    group = np.stack([[0, 1, 2, 2, 4, 5, 6], np.arange(batch)], 1)
    hard, scale, bias = HardNegatives(3), 2.0, 0.5
    parts = [Tensor(text, ms.float32), Tensor(np.ones((batch, 1)), ms.float32), Tensor(image, ms.float32)]
    floats = size * batch * (PER_SCORE + SentenceGlobal().floats(text.shape, image.shape))
    blocks = BlockwiseHardNegatives(hard, [SentenceGlobal()], floats)
    found = blocks(Tensor(group), Tensor(group), (Tensor(scale, ms.float32),), (Tensor(bias, ms.float32),),
                   *((part,) for part in parts))
    score = Tensor(scale * text @ image.T + bias, ms.float32)
    expected = hard(score, positives(Tensor(group), Tensor(group)))
    assert all(np.array_equal(one.asnumpy(), other.asnumpy()) for one, other in zip(found, expected))


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
    matching, pairs = Matching(Table(odds), 0), (Tensor(at.astype(np.int32)),)
    inputs = [pairs, pairs, matching.hard(Tensor(score, ms.float32), Tensor(np.eye(4, dtype=np.float32)))]
    wrong = [odds[n, (n + 1) % 4] for n in at] + [odds[(n - 1) % 4, n] for n in at]
    if with_texts:
        inputs += [(Tensor((at + 4).astype(np.int32)),), Tensor([1.0, 0.0, 1.0, 0.0])]
        wrong += [odds[4, 0], odds[6, 2]]
    expected = 0.5 * (np.log1p(np.exp(-odds[at, at])).mean() + np.log1p(np.exp(wrong)).mean())
    assert matching(*inputs).asnumpy() == pytest.approx(expected, rel=1e-5)
