"""The whole model: a seed is a model, padding and special tokens never score, and evaluation compiles once."""
import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model
from hcma.models.levels import LevelScores

BEGIN, END = 1, 2


def weights(model):
    return {parameter.name: parameter.asnumpy() for parameter in model.get_parameters()}


def scores(model, image, ids, lengths):
    return [score.asnumpy() for score in model(image, Tensor(ids), Tensor(lengths))]


@pytest.fixture(scope='module')
def captions():
    """Ids (3, 8) that begin and end where captions do, and their lengths."""
    rng = np.random.default_rng(3)
    lengths = np.array([5, 3, 4], np.int32)
    ids = rng.integers(3, 40, (3, 8)).astype(np.int32)
    ids[:, 0], ids[range(3), lengths - 1] = BEGIN, END
    return ids, lengths


@pytest.fixture(scope='module')
def model(make_recipe, vocabulary):
    """The tiny model whose words are embeddings, so that a token reaches word-level scores by its own place only."""
    return build_model(make_recipe(model={'text': {'word_layer': 0}}), vocabulary)


@pytest.fixture(scope='module')
def image(make_recipe, make_batch):
    return make_batch(make_recipe(), 3)[0]


def test_same_seed_same_bytes_other_seed_other_weights(make_recipe, vocabulary):
    first, again, other = (weights(build_model(make_recipe(seed=seed), vocabulary)) for seed in (5, 5, 6))
    drawn = [name for name in first if np.ptp(first[name]) > 0 and 'directions' not in name]  # those start alike
    assert first.keys() == again.keys() == other.keys() and len(drawn) > 10
    for name in first:
        assert first[name].tobytes() == again[name].tobytes()
    assert all(first[name].tobytes() != other[name].tobytes() for name in drawn)


def test_temperatures_start_as_the_recipe_says_and_act_once(model, image, captions):
    np.testing.assert_allclose(model.log_scale.asnumpy(), math.log(1 / 0.07), rtol=1e-6)
    ids, lengths = Tensor(captions[0]), Tensor(captions[1])
    cosines = model.scores(model.text_tower(ids, lengths), model.image_tower(image))
    for scaled, cosine in zip(model(image, ids, lengths), cosines):
        np.testing.assert_allclose(scaled.asnumpy(), cosine.asnumpy() / 0.07, rtol=1e-5)
        assert np.abs(cosine.asnumpy()).max() <= 1 + 1e-6


def test_padded_caption_scores_as_one_of_a_shorter_fixed_length(make_recipe, vocabulary, model, image, captions):
    ids, lengths = captions
    short = build_model(make_recipe(model={'text': {'word_layer': 0, 'length': 5}}), vocabulary)
    for name, array in weights(model).items():
        cut = array[:, :5] if name == 'text_tower.encoder.position' else array
        if name.startswith('text_tower') and name.endswith('directions.table'):
            cut = array[:, 3:-3]  # the distances that a length of 5 has
        short.parameters_dict()[name].set_data(Tensor(cut))
    for long_score, short_score in zip(scores(model, image, ids, lengths), scores(short, image, ids[:, :5], lengths)):
        np.testing.assert_allclose(long_score, short_score, rtol=1e-5, atol=1e-5)


def test_begin_end_and_padding_do_not_enter_word_level_scores(model, image, captions):
    ids, lengths = captions
    at = np.arange(8)
    no_word = (at == 0) | (at >= lengths[:, None] - 1)
    sentence, word = scores(model, image, ids, lengths)
    other_sentence, other_word = scores(model, image, np.where(no_word, 7, ids), lengths)
    assert np.array_equal(word, other_word)
    assert not np.allclose(sentence, other_sentence)
    padded = scores(model, image, np.where(at >= lengths[:, None], 7, ids), lengths)
    assert all(np.array_equal(score, other) for score, other in zip((sentence, word), padded))


def test_captions_without_words_give_finite_scores_and_gradients(model, image, captions, make_batch, make_recipe):
    ids, lengths = captions[0], np.array([2, 0, 4], np.int32)
    assert all(np.isfinite(score).all() for score in scores(model, image, ids, lengths))
    assert not scores(model, image, ids, lengths)[1][:2].any()
    loss = HierarchicalLoss(model, (1, 1))
    inputs = image, Tensor(ids), Tensor(lengths), make_batch(make_recipe(), 3)[3]
    gradients = ms.grad(lambda *inputs: loss(*inputs)[0], None, model.trainable_params())(*inputs)
    assert all(np.isfinite(gradient.asnumpy()).all() for gradient in gradients)


def test_permuted_images_permute_the_columns(model, image, captions):
    order = [2, 0, 1]
    permuted = scores(model, Tensor(image.asnumpy()[order]), *captions)
    for score, other in zip(scores(model, image, *captions), permuted):
        np.testing.assert_allclose(score[:, order], other, atol=1e-5)


def test_flat_model_has_no_word_parameters(make_recipe, vocabulary, model):
    flat = weights(build_model(make_recipe(loss={'levels': ['sentence_global']}), vocabulary))
    only_for_words = {'text_tower.to_word.linear.weight', 'image_tower.to_patch.linear.weight'}
    assert weights(model).keys() - flat.keys() == only_for_words
    assert flat['log_scale'].shape == (1,)


def test_scales_are_clamped_to_their_range(make_recipe, vocabulary):
    flat = build_model(make_recipe(), vocabulary)
    flat.log_scale.set_data(Tensor([-0.5, 9.0], ms.float32))
    flat.clamp_scales()
    np.testing.assert_allclose(np.exp(flat.log_scale.asnumpy()), [1, 100], rtol=1e-6)


@pytest.mark.graph
def test_evaluation_compiles_each_piece_once(make_recipe, make_batch, vocabulary):
    model = build_model(make_recipe(), vocabulary).set_train(False)
    pairs = LevelScores(model.levels, pairs=True).set_train(False)
    for seed in range(3):
        image, ids, lengths, _ = make_batch(make_recipe(), 4, seed)
        text, picture = model.text_tower(ids, lengths), model.image_tower(image)
        # a plain tuple of Tensors would be a constant of the graph, and each a new compilation
        text, picture = ms.mutable(text), ms.mutable(picture)
        every, own = model.scores(text, picture), pairs(text, picture)
    for score, diagonal in zip(every, own):
        np.testing.assert_allclose(np.diag(score.asnumpy()), diagonal.asnumpy(), atol=1e-6)
    assert [len(cell.compile_cache) for cell in (model.text_tower, model.image_tower, model.scores, pairs)] == [1] * 4
