"""A caption's features do not depend on how far it is padded, nor on what the padding is."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.models.layers import Init
from hcma.models.text_encoder import TextEncoder

LONG, SHORT = 8, 5
LENGTHS = np.array([5, 3, 2], np.int32)
IDS = np.random.default_rng(0).integers(1, 40, (3, LONG)).astype(np.int32)


def run(encoder, ids, lengths):
    return [feature.asnumpy() for feature in encoder(Tensor(ids), Tensor(lengths))]


@pytest.fixture(scope='module')
def encoder(make_recipe, vocabulary):
    """``encoder(length, ...)``: text encoders with the same weights wherever their shapes allow it."""
    def make(length, depth=2, **options):
        config = make_recipe(model={'text': {'length': LONG, 'depth': depth, **options}}).model.text
        cell = TextEncoder(config.model_copy(update={'length': length}), vocabulary, Init(0))
        source = {p.name: p.asnumpy() for p in TextEncoder(config, vocabulary, Init(0)).get_parameters()}
        for parameter in cell.get_parameters():
            cut = source[parameter.name]
            if parameter.name == 'position':
                cut = cut[:, :length]
            elif parameter.name.endswith('directions.table'):  # one entry for each distance
                cut = cut[:, LONG - length:cut.shape[1] - (LONG - length)]
            parameter.set_data(Tensor(cut))
        return cell
    return make


@pytest.fixture(scope='module', params=[(causal, pool) for causal in (True, False) for pool in ('end', 'mean')],
                ids=lambda param: f'{"causal" if param[0] else "bidirectional"}-{param[1]}')
def kind(request):
    causal, pool = request.param
    return {'causal': causal, 'pool': pool}


def test_padded_equals_a_shorter_fixed_length(encoder, kind):
    words, mask, sentence = run(encoder(LONG, **kind), IDS, LENGTHS)
    short_words, short_mask, short_sentence = run(encoder(SHORT, **kind), IDS[:, :SHORT], LENGTHS)
    real = np.arange(SHORT) < LENGTHS[:, None]
    np.testing.assert_allclose(words[:, :SHORT][real], short_words[real], atol=1e-6)
    np.testing.assert_allclose(sentence, short_sentence, atol=1e-6)
    assert np.array_equal(mask[:, :SHORT], short_mask) and not mask[:, SHORT:].any()


def test_ids_of_the_padding_do_not_matter(encoder, kind):
    cell = encoder(LONG, **kind)
    real = np.arange(LONG) < LENGTHS[:, None]
    words, mask, sentence = run(cell, IDS, LENGTHS)
    other_words, other_mask, other_sentence = run(cell, np.where(real, IDS, 0), LENGTHS)
    assert np.array_equal(words[real], other_words[real])
    assert np.array_equal(sentence, other_sentence) and np.array_equal(mask, other_mask)


@pytest.mark.parametrize('causal', [True, False])
def test_causal_words_see_only_what_is_before_them(encoder, causal):
    cell = encoder(LONG, causal=causal)
    changed = IDS.copy()
    changed[0, 3] += 1
    before, after = run(cell, IDS, LENGTHS)[0][0, :5], run(cell, changed, LENGTHS)[0][0, :5]
    assert np.array_equal(before[:3], after[:3]) == causal
    assert (before[3:] != after[3:]).any(-1).all()


def test_mask_marks_exactly_the_words(encoder):
    lengths = np.array([0, 1, 2, 3, 8], np.int32)
    mask = run(encoder(LONG, depth=0), np.zeros((5, LONG), np.int32), lengths)[1]
    expected = [[0] * LONG, [0] * LONG, [0] * LONG, [0, 1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 0]]
    assert np.array_equal(mask, expected)


def test_captions_without_words_are_finite_with_a_finite_gradient(encoder, kind):
    """Padding only, a begin token only, begin and end only."""
    cell = encoder(LONG, depth=1, **kind)
    ids, lengths = Tensor(IDS), Tensor(np.array([0, 1, 2], np.int32))

    def total(ids, lengths):
        words, mask, sentence = cell(ids, lengths)
        return (words * mask.expand_dims(-1)).sum() + (sentence * sentence).sum()
    value, gradients = ms.value_and_grad(total, None, cell.trainable_params())(ids, lengths)
    assert np.isfinite(value.asnumpy()) and all(np.isfinite(gradient.asnumpy()).all() for gradient in gradients)


def test_mean_pool_is_the_mean_over_the_tokens_and_end_pool_the_last(encoder):
    words, _, mean = run(encoder(LONG, pool='mean'), IDS, LENGTHS)
    _, _, end = run(encoder(LONG, pool='end'), IDS, LENGTHS)
    np.testing.assert_allclose(mean, [row[:n].mean(0) for row, n in zip(words, LENGTHS)], atol=1e-6)
    np.testing.assert_allclose(end, [row[n - 1] for row, n in zip(words, LENGTHS)], atol=1e-6)


@pytest.mark.parametrize('layer', [0, 1, 2])
def test_word_layer_gives_the_words_after_that_many_blocks(encoder, layer):
    whole, shallow = encoder(LONG, word_layer=layer), encoder(LONG, depth=layer)
    copied = {parameter.name: parameter for parameter in whole.get_parameters()}
    for parameter in shallow.get_parameters():
        parameter.set_data(copied[parameter.name])
    np.testing.assert_allclose(run(whole, IDS, LENGTHS)[0], run(shallow, IDS, LENGTHS)[0], atol=1e-6)


def test_word_layer_zero_gives_the_normalised_embeddings(encoder):
    cell = encoder(LONG, word_layer=0)
    x = cell.embedding.asnumpy().astype(np.float64)[IDS] + cell.position.asnumpy()
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(cell, IDS, LENGTHS)[0], expected, atol=1e-4)
