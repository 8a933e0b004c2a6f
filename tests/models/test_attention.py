"""Attention as a score is its definition in float64, for all pairs, own pairs and within a pair."""
import mindspore as ms
import numpy as np
from mindspore import Tensor

from hcma.models.attention import SHARPNESS, Attention, AttentionPairs, InPair

TEXTS, IMAGES = 4, 3  # of ``features``


def context(word, patch):
    """Of one word among the patches of one image."""
    weight = np.exp(SHARPNESS * patch @ word)
    mean = weight @ patch / weight.sum()
    return mean / np.linalg.norm(mean)


def reference(word, mask, patch):
    score = np.zeros((len(word), len(patch)))
    for text, image in np.ndindex(score.shape):
        fits = [w @ context(w, patch[image]) for w in word[text][mask[text] > 0]]
        score[text, image] = np.mean(fits) if fits else 0
    return score


def tensors(*arrays):
    return tuple(Tensor(array, ms.float32) for array in arrays)


def test_scores_of_all_pairs_are_the_reference(features):
    np.testing.assert_allclose(Attention()(*tensors(*features)).asnumpy(), reference(*features), atol=1e-6)


def test_block_by_block_is_the_whole(features):
    word, mask, patch = features
    blocks = [[Attention()(*tensors(word[t:t + 2], mask[t:t + 2], patch[i:i + 1])).asnumpy() for i in range(IMAGES)]
              for t in (0, 2)]
    np.testing.assert_allclose(np.block(blocks), reference(*features), atol=1e-6)


def test_gradient_is_the_numerical_one_and_none_reaches_what_is_no_word(features, numerical_gradient):
    word, mask, patch = features
    toward = np.random.default_rng(1).normal(size=(TEXTS, IMAGES))
    mask_TL, goal = tensors(mask, toward)
    dword, dpatch = ms.grad(lambda w, p: (Attention()(w, mask_TL, p) * goal).sum(), (0, 1))(*tensors(word, patch))
    expected = numerical_gradient(lambda w: (reference(w, mask, patch) * toward).sum(), word)
    np.testing.assert_allclose(dword.asnumpy(), expected, atol=1e-4)
    expected = numerical_gradient(lambda p: (reference(word, mask, p) * toward).sum(), patch)
    np.testing.assert_allclose(dpatch.asnumpy(), expected, atol=1e-4)
    assert not dword.asnumpy()[mask == 0].any()


def test_own_pairs_are_the_diagonal_of_all_pairs(features):
    inputs = tensors(*(feature[:3] for feature in features))
    np.testing.assert_allclose(AttentionPairs()(*inputs).asnumpy(), np.diag(Attention()(*inputs).asnumpy()), atol=1e-6)


def test_within_a_pair_every_word_meets_every_words_context(features):
    word, _, patch = (feature[:3] for feature in features)
    expected = [[[w @ context(other, p) for other in words] for w in words] for words, p in zip(word, patch)]
    np.testing.assert_allclose(InPair()(*tensors(word, patch)).asnumpy(), expected, atol=1e-6)
