"""Text, image and group score of twins, counted by hand; ties are wrong, and no bad row or picture stops it."""
import json
from itertools import permutations

import numpy as np
import pytest
from PIL import Image

from hcma.data.crops import Decoder
from hcma.errors import InputError
from hcma.evaluation.tasks import Evaluation
from hcma.evaluation.twins import CHANCE, read_twins, twin_metrics
from hcma.evaluation.weights import weightings
from helpers.fake_encoder import BrightnessEncoder

ONE = {'one': np.array([1.0])}


def metrics(*tables, **named):
    """The metrics of rows [[caption 0 with image 0, with image 1], [caption 1 with image 0, with image 1]]."""
    return twin_metrics(np.array(tables, float).transpose(1, 2, 0)[:, :, None], {**ONE, **named})['one']


@pytest.mark.parametrize('table, text, image', [
    ([[2, 1], [1, 2]], 100, 100),
    ([[3, 1], [2, 1.5]], 100, 0),         # the second caption prefers the first image
    ([[3, 2], [1, 1.5]], 0, 100),         # the second image prefers the first caption
    ([[1, 2], [2, 1]], 0, 0),
    ([[2, 1], [2, 3]], 0, 100),           # the first image ties
    ([[2, 2], [1, 3]], 100, 0),           # the first caption ties
    ([[1, 1], [1, 1]], 0, 0),
    ([[1 + 1e-7, 1], [1, 1 + 1e-7]], 0, 0),
])
def test_scores_of_one_pair(table, text, image):
    assert metrics(table) == {'text': text, 'image': image, 'group': min(text, image)}


def test_scores_are_shares_of_the_pairs_and_the_group_needs_both_in_one_pair():
    assert metrics([[3, 1], [2, 1.5]], [[3, 2], [1, 1.5]], [[2, 1], [1, 2]]) == {
        'text': 66.67, 'image': 66.67, 'group': 33.33}


def test_chance_is_the_score_of_all_orders_of_four_scores():
    tables = [np.array(order).reshape(2, 2) for order in permutations(range(4))]
    assert metrics(*tables) == {name: round(chance, 2) for name, chance in CHANCE.items()}


def test_weights_add_up_the_levels_before_they_are_compared():
    scores = np.array([[[[2.0], [0]], [[0], [5]]], [[[0], [5]], [[2], [0]]]])  # (2, 2, levels, rows)
    found = twin_metrics(scores, {'one': np.array([1, 0]), 'other': np.array([0, 1]), 'both': np.array([1, 0.1])})
    assert [found[name]['group'] for name in ('one', 'other', 'both')] == [100, 0, 100]


@pytest.fixture
def evaluation(tmp_path):
    made = Evaluation.__new__(Evaluation)
    made.run_dir, made.encoder, made.decoder = tmp_path, BrightnessEncoder(), Decoder((8, 8))
    made.weightings = weightings(made.encoder.levels, {'far': 0.5})
    for brightness in (50, 120, 200):
        Image.new('RGB', (9, 9), (brightness,) * 3).save(tmp_path / f'{brightness}.png')
    return made


def write(path, rows):
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')
    return str(path)


def twins(images, captions):
    return {'images': [f'{name}.png' for name in images], 'captions': [f'{value} bright' for value in captions]}


def test_a_file_of_twins_gives_every_level_and_the_weighted_score(evaluation, tmp_path, capsys):
    rows = [twins((50, 200), (50, 200)), twins((200, 120), (200, 120)), twins((50, 120), (120, 50)),
            twins((50, 200), (100, 150)), twins((120, 200), (50, 120)), twins(('none', 200), (1, 200))]
    result = evaluation.twins(write(tmp_path / 'twins.jsonl', rows))
    # The fifth: caption 50 finds image 120, caption 120 finds image 120 too; image 120 and 200 both find caption 120.
    assert (result['text'], result['image'], result['group']) == (60.0, 60.0, 60.0)
    assert (result['pairs'], result['skipped']) == (5, 1)
    assert '1 of 6 pairs of twins skipped' in capsys.readouterr().err
    assert result['levels']['near'] == result['levels']['weighted'] == {'text': 60.0, 'image': 60.0, 'group': 60.0}
    assert result['levels']['far'] == {'text': 20.0, 'image': 20.0, 'group': 20.0}
    assert result['weights'] == {'near': 1.0, 'far': 0.5}


BAD = {
    'one image': ({'images': ['a'], 'captions': ['b', 'c']}, "line 1: has no two texts under 'images'; it has images"),
    'a text': ({'images': ['a', 'b'], 'captions': 'bc'}, "no two texts under 'captions'"),
    'misspelt': ({'image': ['a', 'b'], 'captions': ['b', 'c']}, "under 'images', did you mean its 'image'"),
    'numbers': ({'images': ['a', 'b'], 'captions': [1, 2]}, "no two texts under 'captions'"),
}


@pytest.mark.parametrize('name', BAD)
def test_a_bad_row_is_refused_with_its_line_and_key(name, tmp_path):
    row, message = BAD[name]
    with pytest.raises(InputError, match=f'bad.jsonl, {message}' if message.startswith('line') else message):
        read_twins(write(tmp_path / 'bad.jsonl', [row]))


def test_missing_files_and_pictures_are_refused(evaluation, tmp_path):
    with pytest.raises(InputError, match='cannot be read .*give a JSONL of twins'):
        read_twins(tmp_path / 'none.jsonl')
    with pytest.raises(InputError, match=r'none of its images can be read \(the first: none.png\)'):
        evaluation.twins(write(tmp_path / 'twins.jsonl', [twins(('none', 50), (1, 2))]))
