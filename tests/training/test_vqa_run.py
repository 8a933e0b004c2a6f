"""VQA runs: they learn, leave alone what is frozen, resume to the bit, and name what is wrong with data or recipe."""

import pytest
from safetensors.numpy import load_file

from hcma.errors import InputError
from hcma.evaluation.vqa import vqa
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import MODEL, STATE, checkpoints, load_model, load_vqa
from hcma.training.tasks import task_of
from hcma.training.trainer import train
from helpers.copy_run import Copy
from helpers.questions import save_aligned, write_questions

ONE_STEP = {'epochs': 1, 'batch_size': 6}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp('questions'))


@pytest.fixture(scope='module')
def aligned(tmp_path_factory, make_recipe):
    recipe = make_recipe(model={'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}})
    return save_aligned(tmp_path_factory.mktemp('aligned'), recipe)


def recipe_of(data, aligned, vqa=None, train=None, **sections):
    return parse_recipe({'data': {'train': str(data)}, 'vqa': {'checkpoint': str(aligned), **(vqa or {})},
                         'train': {'epochs': 2, 'batch_size': 3, 'lr': 1e-2, 'mode': 'pynative', **(train or {})},
                         **sections}, 'recipe of a test')


def test_a_resumed_run_ends_as_one_that_never_stopped(data, aligned, tmp_path):
    recipe = recipe_of(data, aligned, train={'checkpoint_every': 3})
    assert train(recipe, tmp_path / 'straight', callbacks=[Copy(tmp_path / 'straight', tmp_path / 'resumed')])
    assert train(recipe, tmp_path / 'resumed', resume=True)
    for name in (MODEL, STATE):
        straight, resumed = ((checkpoints(tmp_path / run)[-1] / name).read_bytes() for run in ('straight', 'resumed'))
        assert straight == resumed


@pytest.mark.parametrize('frozen, expected', [(True, set()), (['image'], {'text_tower'}),
                                              (False, {'image_tower', 'text_tower'})])
def test_frozen_towers_stay_and_the_others_move(frozen, expected, data, aligned, tmp_path):
    train(recipe_of(data, aligned, {'frozen': frozen}, ONE_STEP), tmp_path / 'run')
    before, after = (load_file(checkpoints(run)[-1] / MODEL) for run in (aligned, tmp_path / 'run'))
    moved = {name.split('.')[0] for name, array in before.items() if (array != after[f'encoders.{name}']).any()}
    assert moved == expected


@pytest.mark.graph
def test_a_handful_of_questions_is_learned_by_heart(data, aligned, tmp_path):
    recipe = recipe_of(data, aligned, {'frozen': []}, {'epochs': 40, 'batch_size': 6, 'mode': 'graph'})
    assert train(recipe, tmp_path / 'run')
    result = vqa(tmp_path / 'run', data)
    assert result['types'] == {'colour': 100, 'exist': 100}
    assert result['majority_types'] == {'colour': 33.33, 'exist': 66.67}


def test_unusable_rows_are_left_out_and_counted(data, aligned, tmp_path, capsys):
    bad = ['{"image": "none.png", "question": "what", "answer": "red"}', 'no JSON', '{"image": "red.png"}',
           '{"image": "red.png", "question": "what"}', '{"question": "what", "answer": "red"}', '[1]']
    clean, with_bad = (task_of(recipe_of(path, aligned)) for path in (data, write_questions(tmp_path, bad)))
    clean.load(None)
    with_bad.load(None)
    assert '6 rows skipped: 2 x bad row, ' in capsys.readouterr().err
    assert clean.fingerprint == with_bad.fingerprint
    for expected, batch in zip(clean.batches.epoch(0), with_bad.batches.epoch(0)):
        assert all((one == other).all() for one, other in zip(expected, batch))


def test_what_cannot_be_trained_is_refused_with_its_file_line_and_key(data, aligned, tmp_path, make_recipe):
    bad = tmp_path / 'bad.jsonl'
    bad.write_text('{"image": "none.png", "question": "what", "answer": "red"}\n')
    for recipe, message in (
            (recipe_of(bad, aligned), r'bad.jsonl: no usable question \(line 1: missing file'),
            (recipe_of(data, aligned, {'split': 'other'}), "questions.jsonl: no row has \"split\" equal to 'other'"),
            (recipe_of(tmp_path / 'none', aligned), 'data.train: .*none is no file'),
            (recipe_of(data, tmp_path), 'neither a checkpoint nor a run'),
            (recipe_of(data, aligned, train={'batch_size': 7}), 'train.batch_size: 7 is more than the 6 questions'),
            (recipe_of(data, aligned, model={'preset': 'small'}), 'model: a VQA run has that of vqa.checkpoint')):
        with pytest.raises(InputError, match=message):
            train(recipe, tmp_path / 'run')
    with pytest.raises(InputError, match='vqa.head: .*did you mean \'word_patch\''):
        recipe_of(data, aligned, {'head': 'word_patches'})
    with pytest.raises(InputError, match='vqa.heads: unknown key .*did you mean \'head\''):
        recipe_of(data, aligned, {'heads': 'global'})


def test_each_kind_of_run_says_what_it_is_not(data, aligned, tmp_path):
    train(recipe_of(data, aligned, train=ONE_STEP), tmp_path / 'run')
    with pytest.raises(InputError, match='answers questions .evaluate it with --task vqa'):
        load_model(tmp_path / 'run')
    with pytest.raises(InputError, match='answers no questions; train a head on it first'):
        load_vqa(aligned)
