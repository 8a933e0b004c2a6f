"""A perturbed caption differs in one word, which stands between the same neighbours in another picture's caption."""
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hcma.data.perturb import Perturbation, words_in_places
from hcma.data.scenes import Options, make_samples
from hcma.errors import InputError

COLOURS = ('red', 'blue', 'green')
# Every picture has one ball; its captions call it a ball or an orb.
BALLS = [[f'A {colour} {name} rolls .' for name in ('ball', 'orb')] for colour in COLOURS for _ in range(6)]
ROOT = Path(__file__).parents[2]


def draws(perturb, captions, count=60):
    generator = np.random.default_rng(0)
    return {perturb(captions[0], captions, generator) for _ in range(count)}


def test_the_word_comes_from_the_same_place_of_other_pictures_captions():
    perturb = Perturbation(BALLS + [['A red kite rolls .'], ['A red bird flies .']])
    assert draws(perturb, BALLS[0]) == {'A blue ball rolls .', 'A green ball rolls .', 'A red kite rolls .'}


def test_words_for_the_same_thing_do_not_replace_each_other():
    perturb = Perturbation(BALLS)
    assert perturb.same == {'ball': {'orb'}, 'orb': {'ball'}}
    assert draws(perturb, ['A red ball rolls .']) == {'A blue ball rolls .', 'A green ball rolls .'}


def test_what_another_caption_of_the_picture_says_in_that_place_is_true_of_it():
    perturb = Perturbation(BALLS)
    assert draws(perturb, ['A red ball rolls .', 'Look , a Blue ball .']) == {'A green ball rolls .'}


def test_function_words_stay_and_a_capital_letter_stays_one():
    perturb = Perturbation([['Dogs run the race'], ['Cats run a race'], ['Birds run an race']])
    assert draws(perturb, ['Dogs run the race']) == {'Cats run the race', 'Birds run the race'}


def test_where_nothing_fits_there_is_no_negative():
    assert draws(Perturbation(BALLS), ['two kites above a tree']) == {''}
    assert draws(Perturbation(BALLS), ['']) == {''}


def test_chinese_words_are_replaced_between_two_characters_on_either_side():
    captions = [['一只黑狗在草地上跑'], ['一只黑猫在草地上睡觉'], ['一只白猫在沙发上'], ['三个人站在草地上']]
    assert draws(Perturbation(captions), captions[0]) == {'一只黑猫在草地上跑'}
    mixed = [['一只dog在草地上'], ['一只Cat在草地上']]
    assert draws(Perturbation(mixed), mixed[0]) == {'一只cat在草地上'}


def test_a_word_stands_in_as_often_as_it_is_in_that_place():
    perturb = Perturbation([['a red hat']] * 30 + [['a blue hat']] * 10 + [['a black hat']])
    generator = np.random.default_rng(0)
    drawn = [perturb('a black hat', ['a black hat'], generator) for _ in range(400)]
    assert 0.65 < drawn.count('a red hat') / 400 < 0.85


def test_captions_without_any_stand_in_are_refused():
    with pytest.raises(InputError, match='data.negatives: is perturb, but no two words'):
        Perturbation([['one caption'], ['quite another text']])


@pytest.fixture(scope='module')
def scenes():
    return [make_samples('train', number, Options())[0].captions for number in range(1500)]


def test_a_negative_is_never_a_caption_and_has_one_new_word_of_the_training_captions(scenes):
    perturb, generator = Perturbation(scenes), np.random.default_rng(0)
    known = {word for captions in scenes for words in words_in_places(captions).values() for word in words}
    for captions in scenes[:300]:
        for caption in captions:
            negative = perturb(caption, captions, generator)
            old, new = caption.replace(',', '').split(), negative.replace(',', '').split()
            assert negative not in captions and len(new) == len(old)
            changed = [(one, other) for one, other in zip(old, new) if one != other]
            assert len(changed) == 1 and changed[0][1] in known
    assert perturb.same['disc'] == {'circle'} and perturb.same['sofa'] == {'couch'}
    assert 'blue' not in perturb.same.get('red', ())


def test_the_same_generator_gives_the_same_negatives_in_another_process():
    program = ('import numpy as np; from hcma.data.perturb import Perturbation as P; r = [[f"a {w} hat", f"a {w} cat"]'
               ' for w in "red blue black white green gold pink grey".split()]; p = P(r);'
               ' g = np.random.default_rng(0); print([p(t, c, g) for c in r for t in c])')
    said = [subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True, cwd=ROOT,
                           env={**os.environ, 'PYTHONPATH': str(ROOT), 'PYTHONHASHSEED': seed}).stdout
            for seed in '12']
    assert said[0] == said[1] and said[0].count('hat') == 8


def test_the_table_of_many_captions_is_built_in_seconds(scenes):
    started = time.perf_counter()
    Perturbation(scenes * 5)
    assert time.perf_counter() - started < 10
