"""InfoNCE is its definition, whichever rows belong together, and stays finite at any score."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.contrastive import info_nce, positives, sigmoid_loss, word_contrast

ALONE = [[0, 10], [1, 11], [2, 12], [3, 13], [4, 14]]
SAME_IMAGE = [[0, 10], [0, 11], [2, 12], [3, 13], [2, 14]]
SAME_CAPTION = [[0, 10], [1, 10], [2, 12], [3, 12], [4, 14]]
BOTH = [[0, 10], [0, 11], [2, 11], [3, 13], [4, 14]]


def reference(score, group):
    """Both directions in float64, one row and one positive after the other."""
    total = 0.0
    for matrix in (score, score.T):
        for row in range(len(matrix)):
            mine = [other for other in range(len(matrix)) if set(group[row]) & set(group[other])]
            log_sum = np.log(np.exp(matrix[row] - matrix[row].max()).sum()) + matrix[row].max()
            total += sum(log_sum - matrix[row][other] for other in mine) / len(mine)
    return total / (2 * len(score))


def both(group):
    """Which rows of one group belong together."""
    return positives(Tensor(group), Tensor(group))


def loss(score, group):
    return info_nce(Tensor(score, ms.float32), both(group)).asnumpy()


def gradient(score, group):
    positive_BB = both(group)
    return ms.grad(lambda score: info_nce(score, positive_BB))(Tensor(score, ms.float32)).asnumpy()


@pytest.fixture(scope='module')
def score():
    return np.random.default_rng(0).normal(size=(5, 5)) * 5


@pytest.mark.parametrize('group', [ALONE, SAME_IMAGE, SAME_CAPTION, BOTH])
def test_loss_is_the_reference_and_its_gradient_the_numerical_one(score, group, numerical_gradient):
    np.testing.assert_allclose(loss(score, group), reference(score, group), rtol=1e-5)
    expected = numerical_gradient(lambda s: reference(s, group), score)
    np.testing.assert_allclose(gradient(score, group), expected, atol=1e-6)


def test_either_column_of_group_ids_makes_positives():
    expected = np.eye(5)
    expected[0, 1] = expected[1, 0] = expected[1, 2] = expected[2, 1] = 1
    assert np.array_equal(both(BOTH).asnumpy(), expected)


def test_group_ids_that_differ_in_the_last_of_63_bits_are_different():
    large = 2 ** 62
    group = np.array([[large], [large + 1], [large]])
    assert np.array_equal(both(group).asnumpy(), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


@pytest.mark.parametrize('group', [ALONE, SAME_IMAGE])
def test_transposed_scores_give_the_same_loss(score, group):
    assert loss(score.T, group) == pytest.approx(loss(score, group), rel=1e-6)


def test_copies_of_an_image_attract_each_other_as_they_attract_themselves():
    """At equal scores a copy is pulled in like the row's own image; without group ids it would be pushed away."""
    grouped, ungrouped = gradient(np.zeros((5, 5)), SAME_IMAGE), gradient(np.zeros((5, 5)), ALONE)
    assert grouped[0, 1] == pytest.approx(grouped[0, 0]) and grouped[0, 1] < 0 < ungrouped[0, 1]


def test_copies_that_match_and_nothing_else_leave_nothing_to_learn():
    """Every positive far above every negative: the loss is the entropy of the shared targets, the gradient zero."""
    positive = both(SAME_IMAGE).asnumpy()
    perfect = 100.0 * positive
    assert loss(perfect, SAME_IMAGE) == pytest.approx(np.log(positive.sum(1)).mean(), rel=1e-5)
    np.testing.assert_allclose(gradient(perfect, SAME_IMAGE), 0, atol=1e-6)
    assert loss(perfect, ALONE) == pytest.approx(loss(perfect, SAME_IMAGE), rel=1e-5)
    assert np.abs(gradient(perfect + np.diag([1, 0, 0, 0, 0]), ALONE)).max() > 1e-3


@pytest.mark.parametrize('group', [ALONE, SAME_IMAGE])
def test_scores_of_ten_thousand_stay_finite(group):
    huge = 1e4 * np.where(np.random.default_rng(0).random((5, 5)) < 0.5, -1, 1)
    assert loss(huge, group) == pytest.approx(reference(huge, group), rel=1e-5)
    assert np.isfinite(gradient(huge, group)).all()


def test_half_precision_scores_are_compared_in_float32(score):
    half = Tensor(score, ms.float16)
    found = info_nce(half, both(ALONE))
    assert found.dtype == ms.float32
    assert found.asnumpy() == pytest.approx(reference(half.asnumpy().astype(np.float64), ALONE), rel=1e-5)


def test_a_wrong_text_is_one_more_candidate_for_its_own_image_alone(score):
    """The reference: InfoNCE of the images over five texts and a sixth that only this image meets."""
    wrong, present = np.random.default_rng(1).normal(size=5) * 5, np.array([1, 1, 0, 1, 0])
    by_text = np.mean([np.log(np.exp(row).sum()) - row[n] for n, row in enumerate(score)])
    by_image = np.mean([np.log(np.exp(column).sum() + keep * np.exp(extra)) - column[n]
                        for n, (column, extra, keep) in enumerate(zip(score.T, wrong, present))])
    found = info_nce(Tensor(score, ms.float32), both(ALONE), Tensor(wrong, ms.float32),
                     Tensor(present, ms.float32))
    assert found.asnumpy() == pytest.approx((by_text + by_image) / 2, rel=1e-5)


def test_absent_wrong_texts_change_nothing(score):
    absent, positive_BB = Tensor(np.zeros(5), ms.float32), both(BOTH)
    for huge in (1e3, -1e3):
        found = info_nce(Tensor(score, ms.float32), positive_BB, Tensor(np.full(5, huge), ms.float32), absent)
        assert found.asnumpy() == pytest.approx(loss(score, BOTH), rel=1e-6)


def test_word_contrast_is_its_definition_over_the_words_that_count():
    rng = np.random.default_rng(2)
    matrix, mask = rng.normal(size=(3, 4, 4)) * 3, np.array([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    terms = []
    for scores, keep in zip(matrix, mask > 0):
        kept = scores[keep][:, keep]
        for n in range(len(kept)):
            terms.append(np.log(np.exp(kept[n]).sum()) + np.log(np.exp(kept[:, n]).sum()) - 2 * kept[n, n])
    found = word_contrast(*(Tensor(x, ms.float32) for x in (matrix, mask, mask.sum()))).asnumpy()
    assert found == pytest.approx(np.sum(terms) / 2 / mask.sum(), rel=1e-5)
    assert word_contrast(Tensor(matrix, ms.float32), Tensor(mask * 0, ms.float32), Tensor(0.0)).asnumpy() == 0


@pytest.mark.parametrize('group', [ALONE, BOTH])
def test_label_smoothing_spreads_that_share_of_the_targets_over_the_batch(score, group):
    uniform = np.mean([np.log(np.exp(matrix).sum(1)).mean() - matrix.mean() for matrix in (score, score.T)])
    found = info_nce(Tensor(score, ms.float32), both(group), smoothing=0.2).asnumpy()
    assert found == pytest.approx(0.8 * reference(score, group) + 0.2 * uniform, rel=1e-5)


def test_sigmoid_loss_judges_every_pair_alone(score):
    wrong, present = np.arange(5.0) - 2, np.array([1, 0, 1, 1, 0])
    sign = 2 * both(BOTH).asnumpy() - 1
    expected = np.log1p(np.exp(-sign * score)).sum() + (present * np.log1p(np.exp(wrong))).sum()
    found = sigmoid_loss(Tensor(score, ms.float32), both(BOTH), Tensor(wrong, ms.float32), Tensor(present, ms.float32))
    assert found.asnumpy() == pytest.approx(expected / 5, rel=1e-5)
