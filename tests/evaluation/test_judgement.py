"""Rank correlations with ties against numbers found by hand, and what a file of ratings may hold."""
import json

import numpy as np
import pytest

from hcma.evaluation.judgement import Rated, correlations, pair_scores, read_ratings
from helpers.fake_encoder import BrightnessEncoder


def rated(*ratings):
    return [Rated('', '', one if isinstance(one, tuple) else (one,), 1) for one in ratings]


def test_ties_count_as_in_the_definitions():
    """Four concordant pairs, one tied in the scores, one in the ratings; ranks 1 2 3.5 3.5 and 1 2.5 2.5 4."""
    result = correlations(np.array([1., 2, 3, 3]), rated(1, 2, 2, 3))
    assert result == {'kendall_b': 80.0, 'kendall_c': 75.0, 'spearman': 83.33}


def test_every_rating_is_an_observation_of_its_own():
    lists = correlations(np.array([1., 2, 3]), rated((1, 2), (2,), (1, 4)))
    assert lists == correlations(np.array([1., 1, 2, 3, 3]), rated(1, 2, 2, 1, 4))


def test_a_correlation_with_ratings_that_are_all_the_same_is_none():
    assert set(correlations(np.array([1., 2]), rated(3, (3, 3))).values()) == {None}


def test_pairs_share_captions_and_pictures():
    items = [Rated('', caption, (1.0,), 1) for caption in ('10 a', '200 b', '10 a')]
    pictures = np.stack([np.full((2, 2, 3), value, np.uint8) for value in (10, 50)])
    scores = pair_scores(BrightnessEncoder(), items, pictures, np.array([0, 1, 1]))
    np.testing.assert_allclose(scores[0], [0, -150, -40])


@pytest.mark.parametrize('scores', [None, [], 'good', [1, 'good'], True, float('nan')])
def test_rows_without_numbers_are_left_out_with_their_line(scores, tmp_path):
    path = tmp_path / 'ratings.jsonl'
    rows = [{'image': 'a.png', 'caption': 'a cat', 'scores': [1, 4]},
            {'image': 'a.png', 'caption': 'a', 'scores': scores}]
    path.write_text('\n'.join(map(json.dumps, rows)))
    found, rejects = read_ratings(str(path))
    assert found == [Rated(str(tmp_path / 'a.png'), 'a cat', (1.0, 4.0), 1)]
    assert [(reject.line, reject.reason) for reject in rejects] == [(2, 'no number or list of numbers under "scores"')]
