"""What generated scenes offer to tell the true from the false by: negatives for training, files of twins."""
import json
from collections import Counter
from contextlib import suppress

import numpy as np

from hcma.data.perturb import Perturbation
from hcma.data.scenes import Options, make_samples, write_scenes
from helpers.scene_captions import RELATIONS, caption_true, read


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


def test_training_negatives_are_false_of_every_type_and_the_scenes_are_the_same_without():
    types = set()
    for twins in (False, True):
        for k in range(300):
            plain, given = (make_samples('train', k, Options(twins=twins, relations=0.5, negatives=negatives))
                            for negatives in (False, True))
            for sample, other in zip(plain, given):
                assert (other.captions, other.things, other.twin) == (sample.captions, sample.things, sample.twin)
                assert other.image.tobytes() == sample.image.tobytes() and sample.negatives is None
                negatives = sum(other.negatives.values(), [])
                assert negatives and list(other.negatives) == list(dict.fromkeys(other.captions))
                for negative in negatives:
                    assert not caption_true(negative, other.things), negative
                types |= {read(negative)[1:] for negative in negatives}
    assert {relation for relation, _ in types} == {None, *RELATIONS.values()}
    assert {count[0] for _, count in types if count} == {1, 2, 3}
    assert make_samples('test', 0, Options(negatives=True))[0].negatives is None


def test_every_negative_is_an_edit_of_the_caption_it_is_given_for():
    for k in range(100):
        sample, = make_samples('train', k, Options(negatives=True))
        for caption, negatives in sample.negatives.items():
            for negative in negatives:
                words, own = (Counter(text.replace(',', '').split()) for text in (negative, caption))
                assert sum((words - own).values()) <= 3, (negative, caption)


def test_negatives_of_twins_differ_from_their_caption_in_the_relation_alone():
    for sample in make_samples('train', 0, Options(twins=True, negatives=True)):
        for caption, negatives in sample.negatives.items():
            assert negatives
            for negative in negatives:
                same_things = sorted(map(str, read(caption)[0])) == sorted(map(str, read(negative)[0]))
                assert same_things and read(negative) != read(caption)


def test_captions_perturbed_without_knowing_the_scenes_are_seldom_true():
    samples = [make_samples('train', k, Options())[0] for k in range(800)]
    perturb, rng, true = Perturbation([sample.captions for sample in samples]), np.random.default_rng(0), 0
    for sample in samples[:400]:
        negative = perturb(sample.captions[0], sample.captions, rng)
        with suppress(AssertionError, IndexError):  # nonsense, which cannot be read
            true += caption_true(negative, sample.things)
    assert true < 0.03 * 400


def test_twins_files_have_captions_that_are_true_of_their_own_picture_only(tmp_path):
    write_scenes(tmp_path, train=4, val=21, test=0, relations=0.5, twins=True, negatives=True, workers=1)
    assert all(list(row)[-1] == 'negatives' for row in read_rows(tmp_path / 'train.jsonl'))
    assert not any('negatives' in row for row in read_rows(tmp_path / 'val.jsonl'))
    twins = [row for row in read_rows(tmp_path / 'val.jsonl') if 'twin' in row]
    rows = read_rows(tmp_path / 'twins_val.jsonl')
    assert [name for row in rows for name in row['images']] == [row['image'] for row in twins] and len(rows) == 5
    made = [make_samples('val', k, Options(twins=True, relations=0.5)) for k in range(10)]
    for row, pair in zip(rows, [pair for pair in made if pair[0].twin is not None]):
        assert row['captions'] == [sample.contrast for sample in pair]
        for caption, sample, other in zip(row['captions'], pair, pair[::-1]):
            assert caption_true(caption, sample.things) and not caption_true(caption, other.things)
    write_scenes(tmp_path, train=0, val=2, test=0, workers=1)
    assert not (tmp_path / 'twins_val.jsonl').exists(), 'those of an earlier call are gone'
