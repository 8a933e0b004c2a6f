"""Generated scenes: what is said of a picture is read back from its words and held against its geometry."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from hcma.data.scenes import Options, make_samples, write_scenes
from hcma.errors import InputError
from helpers.scene_captions import (COLOURS, PLURALS, POSES, RELATION, RELATIONS, SHAPES, caption_true, read,
                                    relation_true)

TOOL = Path(__file__).parents[2] / 'tools' / 'scenes.py'
SPLITS = ('train', 'val', 'test')


@pytest.fixture(scope='module')
def samples():
    return {split: [make_samples(split, k, Options())[0] for k in range(800)] for split in SPLITS}


def pairs(sample):
    return frozenset((thing.colour, thing.shape) for thing in sample.things)


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


def folder_bytes(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def test_the_same_seed_gives_the_same_bytes_whatever_the_number_of_workers(tmp_path):
    options = {'train': 401, 'val': 3, 'test': 201, 'seed': 7, 'relations': 0.5, 'twins': True}
    for workers in (1, 2):
        write_scenes(tmp_path / str(workers), workers=workers, **options)
    assert folder_bytes(tmp_path / '1') == folder_bytes(tmp_path / '2')
    write_scenes(tmp_path / 'other', workers=1, train=5, val=0, test=0, seed=8)
    assert read_rows(tmp_path / '1/train.jsonl')[:5] != read_rows(tmp_path / 'other/train.jsonl')


def test_a_smaller_set_is_the_beginning_of_a_larger_one(tmp_path):
    for count in (5, 9):
        write_scenes(tmp_path / str(count), train=count, val=count, test=0, workers=1)
    small, large = folder_bytes(tmp_path / '5'), folder_bytes(tmp_path / '9')
    assert all(large[name].startswith(content) for name, content in small.items())


def test_splits_share_no_combination_but_all_single_things(samples):
    seen = {split: {pairs(sample) for sample in samples[split]} for split in SPLITS}
    assert not seen['train'] & seen['val'] and not seen['train'] & seen['test'] and not seen['val'] & seen['test']
    singles = {(colour, shape) for colour in COLOURS for shape in set(SHAPES.values()) - {'thing'}}
    assert all(set().union(*seen[split]) == singles for split in SPLITS)


def test_most_scenes_are_plain(samples):
    special = [any(thing.shape in ('frame', 'sofa') or thing.texture != 'plain' for thing in sample.things)
               for sample in samples['train']]
    assert 0.1 < sum(special) / len(special) < 0.3


def test_captions_are_true_short_and_different(samples):
    for sample in samples['train'] + samples['test']:
        assert len(set(sample.captions)) == 4
        for caption in sample.captions:
            assert caption_true(caption, sample.things), caption
            assert caption == caption.lower() and len(caption.split()) <= 20


def test_captions_speak_of_all_that_the_scenes_show(samples):
    said = [read(caption) for sample in samples['train'] for caption in sample.captions]
    assert {relation for _, relation, _ in said} == {None, *RELATIONS.values()}
    assert {count[0] for *_, count in said if count} == {1, 2, 3}
    nouns = [noun for nouns, *_ in said for noun in nouns]
    assert {noun['texture'] for noun in nouns} == {None, 'striped', 'dotted'}
    assert {noun['pose'] for noun in nouns} == {None, *POSES}
    on_sofa = {nouns[0]['pose'] for nouns, relation, _ in said if relation == 'on' and nouns[1]['shape'] == 'sofa'}
    assert on_sofa == {None, 'sitting', 'lying'}


def test_negatives_are_false_of_every_type_and_worded_like_their_captions(samples):
    assert not any(sample.choices for sample in samples['train'])
    types = set()
    for sample in samples['val'] + samples['test']:
        for kind, caption, negative in sample.choices:
            types.add(kind)
            assert caption_true(caption, sample.things), caption
            assert not caption_true(negative, sample.things), (kind, caption, negative)
            if 'on top of' not in caption + negative:  # its opposite is 'next to'
                assert len(caption.split()) == len(negative.split())
    assert types == {'swap_attribute', 'replace_colour', 'replace_object', 'replace_size', 'replace_pose',
                     'replace_texture', 'flip_relation', 'swap_objects', 'count'}


def test_swapped_negatives_use_the_very_same_words(samples):
    swapped = [choice for sample in samples['test'] for choice in sample.choices if choice[0].startswith('swap')]
    assert swapped
    for _, caption, negative in swapped:
        assert sorted(caption.replace(',', '').split()) == sorted(negative.replace(',', '').split())


def test_the_length_and_numbers_of_a_text_do_not_betray_a_wrong_count(samples):
    choices = [choice for split in ('val', 'test') for sample in samples[split] for choice in sample.choices]
    numbers = [(read(caption)[2][0], read(caption)[2][1] == 'thing') for kind, caption, _ in choices if kind == 'count']
    for thing, low, high in ((True, 2, 3), (False, 1, 2)):
        share = numbers.count((low, thing)) / (numbers.count((low, thing)) + numbers.count((high, thing)))
        assert 0.35 < share < 0.65


def answer(question, things):
    """The answer read off the things, for every kind of question."""
    words = question.rstrip('?').split()
    nouns = [(words[k], SHAPES[words[k + 1]]) for k, word in enumerate(words[:-1]) if word in COLOURS
             and words[k + 1] != 'thing' and words[k + 1] in SHAPES]
    if words[0] in ('is', 'can') and len(nouns) == 2:
        a, b = (next(thing for thing in things if (thing.colour, thing.shape) == noun) for noun in nouns)
        return 'yes' if relation_true(RELATIONS[RELATION.search(question)[1]], a, b) else 'no'
    if words[0] in ('is', 'can'):
        return 'yes' if nouns[0] in [(thing.colour, thing.shape) for thing in things] else 'no'
    if words[1] == 'many':
        return str(sum(PLURALS[words[2]] in ('thing', thing.shape) for thing in things))
    if words[1] == 'colour':
        return '/'.join(thing.colour for thing in things if thing.shape == SHAPES[words[-1]])
    if words[-1] == 'thing':
        return '/'.join(thing.shape for thing in things if thing.colour == words[-2])
    found = [thing.pose for thing in things if thing.shape == 'person' and (not nouns or thing.colour == nouns[0][0])]
    return '/'.join(found)


def test_answers_are_right_and_yes_is_as_common_as_no(samples):
    rows = [(sample, *row) for split in SPLITS for sample in samples[split] for row in sample.questions]
    for sample, kind, question, given in rows:
        assert answer(question, sample.things) == given, (kind, question, sample.things)
    assert {kind for _, kind, *_ in rows} == {'colour', 'shape', 'count', 'relation', 'exist', 'pose'}
    for asked in ('relation', 'exist'):
        given = [answer for _, kind, _, answer in rows if kind == asked]
        assert 0.4 < given.count('yes') / len(given) < 0.6


def test_relation_heavy_scenes_always_state_a_relation():
    for k in range(100):
        sample, = make_samples('train', k, Options(relations=1.0))
        assert all(read(caption)[1] for caption in sample.captions)


def test_each_twins_captions_are_false_of_the_other():
    for k in range(100):
        own, other = make_samples('test', k, Options(twins=True))
        assert own.twin == other.twin == k and pairs(own) == pairs(other)
        for sample, twin in ((own, other), (other, own)):
            for caption in sample.captions:
                assert caption_true(caption, sample.things) and not caption_true(caption, twin.things), caption


def test_twins_follow_each_other_and_make_up_the_share_asked_for(tmp_path):
    write_scenes(tmp_path, train=401, val=0, test=0, relations=0.5, twins=True, workers=1)
    twins = [row.get('twin') for row in read_rows(tmp_path / 'train.jsonl')]
    assert twins[:400:2] == twins[1:400:2] and twins[400] is None
    assert 400 - twins[:400].count(None) == 200
    assert len(set(twins)) == 101


def test_the_written_files_are_clean_jpegs_named_by_rows_of_the_agreed_form(tmp_path):
    write_scenes(tmp_path, train=12, val=4, test=6, captions=2, workers=1)
    assert {path.name for path in tmp_path.iterdir()} == {
        'images', 'train.jsonl', 'val.jsonl', 'test.jsonl', 'choices_val.jsonl', 'choices_test.jsonl',
        'questions_train.jsonl', 'questions_val.jsonl', 'questions_test.jsonl'}
    rows = read_rows(tmp_path / 'train.jsonl')
    assert len(rows) == 12 and all(list(row) == ['image', 'captions'] and len(row['captions']) == 2 for row in rows)
    with Image.open(tmp_path / rows[11]['image']) as image:
        assert (image.format, image.mode, image.size) == ('JPEG', 'RGB', (48, 48))
        assert [layer[1:3] for layer in image.layer] == [(1, 1)] * 3 and 'progressive' not in image.info
    assert set(read_rows(tmp_path / 'choices_test.jsonl')[0]) == {'image', 'caption', 'negative_caption', 'type'}
    assert set(read_rows(tmp_path / 'questions_val.jsonl')[0]) == {'image', 'question', 'answer', 'type'}


@pytest.mark.parametrize('option, value', [('train', -1), ('captions', 0), ('relations', 1.5), ('workers', 0)])
def test_impossible_options_are_refused_by_name(tmp_path, option, value):
    with pytest.raises(InputError, match=f'{option} is {value}'):
        write_scenes(tmp_path, **{option: value})


def test_the_tool_writes_and_says_in_one_sentence_what_it_cannot_write(tmp_path):
    command = [sys.executable, str(TOOL), '--train', '3', '--val', '1', '--test', '1', '--out']
    assert subprocess.run([*command, str(tmp_path / 'set')], capture_output=True).returncode == 0
    (tmp_path / 'file').write_text('')
    done = subprocess.run([*command, str(tmp_path / 'file')], capture_output=True, text=True)
    assert done.returncode == 2 and 'cannot write scenes' in done.stderr and 'Traceback' not in done.stderr
