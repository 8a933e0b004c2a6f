"""Word-patch late interaction is its definition, forward and backward, and blind to what is no word."""
import mindspore as ms
import numpy as np
from mindspore import Tensor

from hcma.models.scores import (LateInteraction, LateInteractionPairs, SentenceGlobal, SentenceGlobalPairs,
                                word_patch_cosines)

TEXTS, IMAGES = 4, 3  # of ``features``
ALL, OWN = LateInteraction(), LateInteractionPairs()


def reference(word, mask, patch):
    score = np.zeros((len(word), len(patch)))
    for text, image in np.ndindex(score.shape):
        cosine = word[text][mask[text] > 0] @ patch[image].T
        if len(cosine):
            score[text, image] = 0.5 * (cosine.max(1).mean() + cosine.max(0).mean())
    return score


def tensors(*arrays):
    return tuple(Tensor(array, ms.float32) for array in arrays)


def test_word_patch_is_the_reference(features):
    np.testing.assert_allclose(ALL(*tensors(*features)).asnumpy(), reference(*features), atol=1e-6)


def test_own_backward_is_the_numerical_gradient(features, numerical_gradient):
    word, mask, patch = features
    toward = np.random.default_rng(1).normal(size=(TEXTS, IMAGES))
    mask_TL, goal = tensors(mask, toward)
    dword, dpatch = ms.grad(lambda w, p: (ALL(w, mask_TL, p) * goal).sum(), (0, 1))(*tensors(word, patch))
    expected = numerical_gradient(lambda w: (reference(w, mask, patch) * toward).sum(), word)
    np.testing.assert_allclose(dword.asnumpy(), expected, atol=1e-5)
    expected = numerical_gradient(lambda p: (reference(word, mask, p) * toward).sum(), patch)
    np.testing.assert_allclose(dpatch.asnumpy(), expected, atol=1e-5)


def test_what_is_no_word_neither_counts_nor_learns(features):
    word, mask, patch = features
    disturbed = np.where(mask[..., None] > 0, word, 100.0)
    word_TLE, other, mask_TL, patch_IPE = tensors(word, disturbed, mask, patch)
    assert np.array_equal(ALL(word_TLE, mask_TL, patch_IPE).asnumpy(), ALL(other, mask_TL, patch_IPE).asnumpy())
    gradient = ms.grad(lambda w: ALL(w, mask_TL, patch_IPE).sum())(other).asnumpy()
    assert not gradient[mask == 0].any() and gradient[mask == 1].any(-1).all()


def test_text_without_words_scores_zero_with_a_finite_gradient(features):
    word_TLE, mask_TL, patch_IPE = tensors(*features)
    assert not ALL(word_TLE, mask_TL, patch_IPE).asnumpy()[-1].any()
    for gradient in ms.grad(lambda w, p: ALL(w, mask_TL, p).sum(), (0, 1))(word_TLE, patch_IPE):
        assert np.isfinite(gradient.asnumpy()).all()


def test_scores_of_own_pairs_are_the_diagonal_of_all_pairs(features):
    word, mask, patch = (feature[[0, 1, 2]] for feature in features)
    inputs = tensors(word, mask, patch)
    np.testing.assert_allclose(OWN(*inputs).asnumpy(), np.diag(ALL(*inputs).asnumpy()), atol=1e-6)
    sentence, picture = tensors(word[:, 0], patch[:, 0])
    np.testing.assert_allclose(SentenceGlobalPairs()(sentence, None, picture).asnumpy(),
                               np.diag(SentenceGlobal()(sentence, None, picture).asnumpy()), atol=1e-6)
    np.testing.assert_allclose(word_patch_cosines(inputs[0], inputs[2]).asnumpy(),
                               np.einsum('ble,bpe->blp', word, patch), atol=1e-6)


def test_permuted_images_permute_the_columns_and_texts_the_rows(features):
    word, mask, patch = features
    score = ALL(*tensors(word, mask, patch)).asnumpy()
    images, texts = [2, 0, 1], [3, 1, 0, 2]
    permuted = ALL(*tensors(word[texts], mask[texts], patch[images])).asnumpy()
    np.testing.assert_allclose(permuted, score[texts][:, images], atol=1e-6)


def test_order_of_words_and_patches_does_not_matter(features):
    word, mask, patch = features
    score = ALL(*tensors(word[:, ::-1], mask[:, ::-1], patch[:, ::-1])).asnumpy()
    np.testing.assert_allclose(score, reference(word, mask, patch), atol=1e-6)
