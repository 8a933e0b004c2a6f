"""The fusion sees words and patches only, each pair for itself, and its attention can be read by its words."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.models.hcma import build_model


@pytest.fixture(scope='module')
def recipe(make_recipe):
    return make_recipe(model={'fusion': {'heads': 2, 'depth': 2}})


@pytest.fixture(scope='module')
def model(recipe, vocabulary):
    return build_model(recipe, vocabulary)


@pytest.fixture(scope='module')
def parts(model, recipe, make_batch):
    image, ids, lengths, _ = make_batch(recipe, 3)
    text = model.fusion.text_parts(model.text_tower(ids, lengths))
    return text, model.fusion.image_parts(model.image_tower(image))


def rows(parts, at):
    return tuple(Tensor(part.asnumpy()[at]) for part in parts)


def test_a_pair_does_not_know_its_neighbours(model, parts):
    text, image = parts
    together = model.fusion(text, image).asnumpy()
    alone = [model.fusion(rows(text, [n]), rows(image, [n])).asnumpy()[0] for n in range(3)]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.ptp(together) > 1e-4
    assert np.abs(model.fusion(text, rows(image, [1, 2, 0])).asnumpy() - together).max() > 1e-4


def test_what_is_no_word_does_not_matter(model, parts):
    (word, mask, sentence), image = parts
    disturbed = Tensor(np.where(mask.asnumpy()[..., None] > 0, word.asnumpy(), 100.0), ms.float32)
    assert (mask.asnumpy() == 0).any()
    np.testing.assert_array_equal(model.fusion((disturbed, mask, sentence), image).asnumpy(),
                                  model.fusion((word, mask, sentence), image).asnumpy())


def test_attention_maps_are_distributions_over_the_patches(model, recipe, parts):
    maps = model.fusion.attention(*parts)
    patches = recipe.model.image.patches
    assert [tuple(weights.shape) for weights in maps] == [(3, 2, recipe.model.text.length, patches)] * 2
    for weights in maps:
        np.testing.assert_allclose(weights.asnumpy().sum(-1), 1, atol=1e-5)


def test_a_text_without_words_is_finite(model, parts):
    (word, mask, sentence), image = parts
    odds = model.fusion((word, mask * 0, sentence), image)
    assert np.isfinite(odds.asnumpy()).all()
