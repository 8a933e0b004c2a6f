"""The weights of the levels: from the recipe, or those that do best on validation data."""
import numpy as np
import pytest
from PIL import Image

from hcma.data.crops import Decoder
from hcma.evaluation.tasks import Evaluation
from hcma.evaluation.weights import best, grid, weightings
from helpers.fake_encoder import BrightnessEncoder
from helpers.packs import make_pack

LEVELS = ('sentence_global', 'word_patch')


@pytest.fixture
def evaluation(tmp_path):
    """An ``Evaluation`` whose first level is right and whose second is wrong."""
    made = Evaluation.__new__(Evaluation)
    made.run_dir, made.encoder, made.decoder = tmp_path, BrightnessEncoder(), Decoder((8, 8))
    made.weightings = weightings(made.encoder.levels, {})
    return made


def rows(made):
    return {name: row.tolist() for name, row in made.items()}


def test_levels_count_alike_unless_the_recipe_says_otherwise():
    assert rows(weightings(LEVELS, {})) == {'sentence_global': [1, 0], 'word_patch': [0, 1], 'weighted': [1, 1]}
    assert rows(weightings(LEVELS, {'word_patch': 0.25}))['weighted'] == [1, 0.25]
    assert rows(weightings(LEVELS, {'sentence_global': 0}))['weighted'] == [0, 1]
    assert rows(weightings(LEVELS[:1], {})) == {'weighted': [1]}


@pytest.mark.parametrize('levels', [1, 2, 3])
def test_candidates_sum_to_one_differ_and_have_every_level_alone(levels):
    candidates = [tuple(row) for row in grid(range(levels)).values()]
    assert np.allclose(np.sum(candidates, 1), 1)
    assert len(set(candidates)) == len(candidates) == {1: 1, 2: 11, 3: 66}[levels]
    assert {tuple(row) for row in np.eye(levels)} <= set(candidates)


def test_the_best_candidate_wins_and_of_equals_the_most_even():
    candidates = grid(LEVELS)
    assert best(candidates, lambda name: candidates[name][1]).tolist() == [0, 1]
    assert best(candidates, lambda name: 1.0).tolist() == [0.5, 0.5]
    assert best(candidates, lambda name: candidates[name][0] >= 0.7).tolist() == [0.7, 0.3]


@pytest.fixture
def pictures(tmp_path):
    brightness = (10, 60, 110, 160, 210)
    for value in brightness:
        Image.new('RGB', (10, 10), (value,) * 3).save(tmp_path / f'{value}.png')
    return brightness


def test_weights_fitted_on_choices_leave_the_wrong_level_behind(evaluation, pictures, tmp_path):
    lines = ''.join(f'{{"image": "{value}.png", "caption": "{value} a", "negative_caption": "99 b"}}\n'
                    for value in pictures)
    (tmp_path / 'choices.jsonl').write_text(lines)
    evaluation.fit_weights(str(tmp_path / 'choices.jsonl'))
    near, far = evaluation.weightings['weighted']
    assert near > far
    assert evaluation.choice(str(tmp_path / 'choices.jsonl'))['macro'] == 100


def test_weights_fitted_on_pairs_leave_the_wrong_level_behind(evaluation, pictures, tmp_path):
    data = make_pack(tmp_path, [{'image': f'{value}.png', 'caption': f'{value} a'} for value in pictures])
    evaluation.fit_weights(str(data))
    near, far = evaluation.weightings['weighted']
    assert near > far
    result = evaluation.retrieval(str(data))
    assert result['levels']['near'] == result['levels']['weighted']
    assert result['text_to_image']['r1'] == result['image_to_text']['r1'] == 100
    assert result['levels']['far']['text_to_image']['r1'] == 0
    assert result['weights'] == {'near': near, 'far': far}
    assert (result['images'], result['captions']) == (5, 5)
    limited = evaluation.retrieval(str(data), 2)
    assert (limited['images'], limited['levels']['far']['text_to_image']['r5']) == (2, 100)
