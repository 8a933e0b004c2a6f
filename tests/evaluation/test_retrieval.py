"""Blockwise retrieval equals a plain reading of the whole matrix; ties are counted as a random order would."""
from math import comb

import numpy as np
import pytest

from hcma import backend
from hcma.evaluation.retrieval import RECALLS, block_size, retrieval
from helpers.fake_encoder import MatrixEncoder

# Eleven images, two of which are the same picture, with one to four captions each.
IMAGE_GROUP = np.array([7, 3, 9, 1, 3, 20, 21, 22, 23, 24, 25])
TEXT_GROUP = np.array([7, 7, 7, 3, 3, 9, 1, 1, 1, 1, 3, 20, 21, 21, 22, 23, 24, 25, 25])
WEIGHTINGS = {'first': np.array([1.0, 0.0]), 'second': np.array([0.0, 1.0]), 'weighted': np.array([1.0, 0.5])}


def tied_scores(seed=0, values=5):
    """Scores of few values, so that many tie."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, values, (2, len(TEXT_GROUP), len(IMAGE_GROUP))).astype(float)


def measure(scores, text_group=TEXT_GROUP, image_group=IMAGE_GROUP, weightings=None, block=None):
    encoder = MatrixEncoder(scores)
    return retrieval(encoder, encoder.text, encoder.image, text_group, image_group, weightings or WEIGHTINGS, block)


def one_way(scores, right):
    """Recalls and mean rank of the rows of a whole matrix, query by query, from the binomials of the definition."""
    recalls, ranks = {k: [] for k in RECALLS}, []
    for row, is_right in zip(scores, right):
        best = row[is_right].max()
        above, tied = (row > best).sum(), row == best
        good, bad = (tied & is_right).sum(), (tied & ~is_right).sum()
        for k in RECALLS:
            places = min(max(k - above, 0), good + bad)
            recalls[k].append(1 - comb(bad, places) / comb(good + bad, places))
        ranks.append(above + (good + bad + 1) / (good + 1))
    return {**{f'r{k}': round(100 * np.mean(values), 2) for k, values in recalls.items()},
            'median_rank': np.median(ranks), 'mean_rank': round(np.mean(ranks), 2)}


def full_matrix(scores, text_group, image_group):
    right = text_group[:, None] == image_group
    return {'image_to_text': one_way(scores.T, right.T), 'text_to_image': one_way(scores, right)}


@pytest.mark.parametrize('block', [1, 3, 4, 11, 19, 64])
@pytest.mark.parametrize('values', [2, 5, 10 ** 6])
def test_blockwise_equals_the_full_matrix(block, values):
    scores = tied_scores(block, values)
    result = measure(scores, block=block)
    for name, weights in WEIGHTINGS.items():
        expected = full_matrix(np.tensordot(weights, scores, 1), TEXT_GROUP, IMAGE_GROUP)
        for way in expected:
            assert result[name][way] == pytest.approx(expected[way], abs=0.011), (name, way)


@pytest.mark.parametrize('captions', [1, 5])
@pytest.mark.parametrize('images', [12, 40])
def test_scores_that_say_nothing_get_what_guessing_gets(images, captions):
    group = np.arange(images)
    result = measure(np.zeros((2, images * captions, images)), np.repeat(group, captions), group)['weighted']
    for k in RECALLS:
        assert result['text_to_image'][f'r{k}'] == pytest.approx(100 * k / images, abs=0.01)
        missed = comb(images * captions - captions, k) / comb(images * captions, k)
        assert result['image_to_text'][f'r{k}'] == pytest.approx(100 * (1 - missed), abs=0.01)
    assert result['text_to_image']['mean_rank'] == (images + 1) / 2
    assert result['image_to_text']['mean_rank'] == pytest.approx((images * captions + 1) / (captions + 1), abs=0.01)


def test_ties_count_as_the_mean_over_random_ways_to_break_them():
    scores, rng = tied_scores(values=2), np.random.default_rng(1)
    tied = measure(scores)['weighted']
    broken = [measure(scores + rng.random(scores.shape) * 1e-3)['weighted'] for _ in range(300)]
    for way, values in tied.items():
        for key in ('r1', 'r5', 'r10', 'mean_rank'):
            assert np.mean([one[way][key] for one in broken]) == pytest.approx(values[key], rel=0.06), (way, key)


def test_right_scores_above_all_others_are_perfect():
    right = np.broadcast_to(TEXT_GROUP[:, None] == IMAGE_GROUP, (2, len(TEXT_GROUP), len(IMAGE_GROUP))).astype(float)
    perfect = {'r1': 100.0, 'r5': 100.0, 'r10': 100.0, 'median_rank': 1.0, 'mean_rank': 1.0}
    assert measure(right)['weighted'] == {'image_to_text': perfect, 'text_to_image': perfect}


def test_right_scores_below_all_others_find_nothing():
    wrong = np.broadcast_to(TEXT_GROUP[:, None] != IMAGE_GROUP, (2, len(TEXT_GROUP), len(IMAGE_GROUP))).astype(float)
    result = measure(wrong)['weighted']
    assert (result['image_to_text']['r1'], result['text_to_image']['r1']) == (0, 0)
    assert result['text_to_image']['median_rank'] == len(IMAGE_GROUP)


def test_any_caption_of_an_image_is_right_and_both_copies_of_a_picture():
    scores = np.zeros((2, len(TEXT_GROUP), len(IMAGE_GROUP)))
    scores[:, 10, 1] = scores[:, 3, 4] = 1  # captions of either copy, each best for the other copy
    result = measure(scores)['weighted']
    # Of the copies' four captions two find a copy; the other queries only tie.
    chance = full_matrix(np.zeros_like(scores[0]), TEXT_GROUP, IMAGE_GROUP)
    assert result['image_to_text']['r1'] > chance['image_to_text']['r1']
    assert result == {name: values for name, values in measure(scores, block=2).items()}['weighted']


def test_a_model_that_gives_nan_is_no_better_than_chance():
    scores = np.full((2, len(TEXT_GROUP), len(IMAGE_GROUP)), np.nan)
    assert measure(scores, block=4) == measure(np.zeros_like(scores), block=4)


def test_the_order_of_images_and_captions_changes_nothing():
    scores, rng = tied_scores(), np.random.default_rng(2)
    texts, images = rng.permutation(len(TEXT_GROUP)), rng.permutation(len(IMAGE_GROUP))
    assert measure(scores[:, texts][:, :, images], TEXT_GROUP[texts], IMAGE_GROUP[images], block=4) == measure(scores)


@pytest.mark.parametrize('words, patches', [(8, 16), (24, 36), (77, 49), (77, 196)])
def test_a_block_of_products_stays_within_its_memory_where_it_is_held(words, patches, monkeypatch):
    monkeypatch.setattr(backend, 'compiles_kernels', lambda: False)
    text, image = (None, np.zeros((1, words, 4)), None), (None, np.zeros((1, patches, 4)))
    assert 16 <= block_size(text, image) <= 512
    assert block_size(text, image) ** 2 * words * patches * 4 <= 16e6
