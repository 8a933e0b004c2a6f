"""Features and scores do not depend on how images and captions are cut into batches and blocks."""
import mindspore as ms
import numpy as np
import pytest

from hcma.data.tokenizer import train_tokenizer
from hcma.evaluation.features import Encoder, padded_block, take
from hcma.models.hcma import build_model

CAPTIONS = ['a red cat', 'two dogs', '', 'a cat on the sofa', '一只猫', 'a red cat', 'x']
PICTURES = np.random.default_rng(0).integers(0, 256, (7, 16, 16, 3), dtype=np.uint8)


@pytest.fixture(scope='module')
def encoder(make_recipe):
    """``encoder(batch)``: the same small model, fed so many rows at once."""
    tokenizer = train_tokenizer(CAPTIONS, 300, 8)
    small = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
    model = build_model(make_recipe(model=small), tokenizer.vocab_size).set_train(False)
    return lambda batch: Encoder(model, make_recipe(model=small, evaluate={'batch_size': batch}), tokenizer)


@pytest.fixture(scope='module')
def features(encoder):
    """Of all captions and pictures, in one batch."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    return encoder(7).texts(CAPTIONS), encoder(7).images(PICTURES, 7)


def near(one, other):
    return len(one) == len(other) and all(a.shape == b.shape and np.allclose(a, b, atol=1e-6)
                                          for a, b in zip(one, other))


@pytest.mark.parametrize('batch', [3, 16])
def test_batches_and_the_filled_up_last_one_change_no_feature(batch, encoder, features):
    text, image = encoder(batch).texts(CAPTIONS), encoder(batch).images(iter(PICTURES), 7)
    assert near(text, features[0]) and near(image, features[1])


def test_the_same_caption_gives_the_same_features_wherever_it_stands(encoder, features):
    for part in encoder(4).texts(CAPTIONS):
        assert np.array_equal(part[0], part[5])


def test_scores_of_pairs_are_the_diagonal_of_the_scores_of_all_pairs(encoder, features):
    text, image = features
    one = encoder(3)
    every = one.score_block(padded_block(text, 0, 7), padded_block(image, 0, 7))
    assert every.shape == (2, 7, 7)
    assert np.allclose(one.score_pairs(text, image), every[:, range(7), range(7)], atol=1e-4)


def test_a_filled_up_block_has_the_scores_of_its_rows(encoder, features):
    text, image = features
    one = encoder(3)
    every = one.score_block(padded_block(text, 0, 7), padded_block(image, 0, 7))
    block = one.score_block(padded_block(text, 4, 5), padded_block(image, 5, 6))
    assert block.shape == (2, 5, 6)
    assert np.allclose(block[:, :3, :2], every[:, 4:, 5:], atol=1e-4)


def test_scores_are_cosines_over_their_temperatures(encoder, features):
    one = encoder(7)
    scores = one.score_block(*(padded_block(part, 0, 7) for part in features))
    assert np.allclose(scores[0], features[0][0] @ features[1][0].T / 0.07, atol=1e-4)
    assert np.allclose(one.scales, 1 / 0.07)


def test_rows_are_taken_in_the_order_asked_for(features):
    assert near(take(features[0], [5, 1]), [part[[5, 1]] for part in features[0]])


@pytest.mark.graph
def test_every_phase_is_compiled_once_however_many_blocks_there_are(encoder, features):
    one = encoder(2)
    text, image = one.texts(CAPTIONS), one.images(PICTURES, 7)
    for start in range(3):
        one.score_block(padded_block(text, start, 4), padded_block(image, start, 4))
    one.score_pairs(text, image)
    assert near(text, features[0]) and near(image, features[1])
    for cell in (one.all_pairs, one.own_pairs, one.model.text_tower, one.model.image_tower):
        assert len(cell.compile_cache) == 1, type(cell).__name__
