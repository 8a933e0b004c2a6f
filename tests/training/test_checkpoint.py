"""A checkpoint gives every number back to the bit, fits wholly or is refused, and is there whole or not at all."""
import signal
import subprocess
import sys

import numpy as np
import pytest
from mindspore import Tensor
from safetensors.numpy import load_file, save_file

from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from hcma.training import checkpoint
from hcma.training.checkpoint import (MODEL, STATE, checkpoint_path, checkpoints, keep_newest, load_model, load_state,
                                      resolve_checkpoint, restore, save_checkpoint)
from hcma.training.trainer import build_step

PROGRESS = {'step': '7', 'data': 'fingerprint'}


@pytest.fixture(scope='module')
def tokenizer():
    return train_tokenizer(['a cat sits', '一只猫坐着'], 300, 8)


@pytest.fixture(scope='module')
def recipe(make_recipe):
    return make_recipe()


@pytest.fixture(scope='module')
def trained(recipe, tokenizer):
    """A step cell whose every parameter is a number of its own, as after training."""
    step = build_step(recipe, tokenizer.vocab_size, 10)
    rng = np.random.default_rng(0)
    for parameter in step.get_parameters():
        value = rng.standard_normal(parameter.shape) * 9
        parameter.set_data(Tensor(np.array(value), parameter.dtype))
    step.network.model.clamp_scales()
    return step


@pytest.fixture(scope='module')
def fresh(make_recipe, tokenizer):
    """A step cell to load into: the same shapes, other numbers."""
    return build_step(make_recipe(seed=1), tokenizer.vocab_size, 10)


@pytest.fixture(scope='module')
def saved(trained, recipe, tokenizer, tmp_path_factory):
    folder = checkpoint_path(tmp_path_factory.mktemp('run'), 7)
    save_checkpoint(folder, trained, recipe, tokenizer, PROGRESS)
    return folder


def values(cell):
    """All parameters but the factor of the rate, which the stability monitor sets anew."""
    return {parameter.name: parameter.asnumpy().copy() for parameter in cell.get_parameters()
            if parameter.name != 'lr_factor'}


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one)


def test_every_weight_moment_count_and_scale_comes_back_to_the_bit(trained, fresh, saved):
    assert not same(values(trained), values(fresh))
    assert load_state(saved, fresh) == PROGRESS
    assert same(values(trained), values(fresh))


@pytest.mark.graph
@pytest.mark.parametrize('parts', [{}, {'image_micro_batch': 2}])
def test_a_graph_that_has_run_goes_on_from_what_is_loaded(parts, make_recipe, make_batch, tokenizer, tmp_path):
    model = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
    recipe = make_recipe(model=model, loss={'levels': ['sentence_global']}, train={'batch_size': 4, **parts})
    step = build_step(recipe, tokenizer.vocab_size, 10)
    first, second, wrong = (make_batch(recipe, 4, seed) for seed in range(3))
    step(*first)
    save_checkpoint(tmp_path / 'after_first', step, recipe, tokenizer, PROGRESS)
    step(*second)
    expected = values(step)
    step(*wrong)
    load_state(tmp_path / 'after_first', step)
    step(*second)
    assert same(values(step), expected)


def test_the_files_hold_every_parameter_once(trained, saved):
    model, state = load_file(saved / MODEL), load_file(saved / STATE)
    assert not model.keys() & state.keys()
    assert same({**model, **state}, values(trained))
    weights = {parameter.name for parameter in trained.network.model.trainable_params()}
    assert model.keys() >= weights
    for moment in ('moment1', 'moment2'):
        assert {name.removeprefix(f'{moment}.') for name in state if name.startswith(moment)} == weights


def test_the_same_state_gives_the_same_bytes(trained, recipe, tokenizer, saved, tmp_path):
    save_checkpoint(tmp_path / 'again', trained, recipe, tokenizer, PROGRESS)
    for file in saved.iterdir():
        assert (tmp_path / 'again' / file.name).read_bytes() == file.read_bytes()


def test_a_loaded_model_has_the_weights_the_recipe_and_the_tokenizer(trained, recipe, tokenizer, saved):
    model, loaded_recipe, loaded_tokenizer = load_model(saved)
    assert same(values(model), values(trained.network.model))
    assert loaded_recipe == recipe
    assert np.array_equal(loaded_tokenizer.encode(['a cat 猫'])[0], tokenizer.encode(['a cat 猫'])[0])
    assert not model.training


def test_temperatures_out_of_range_are_clamped_when_loaded(saved, tmp_path):
    folder = copied(saved, tmp_path)
    arrays = load_file(folder / MODEL)
    arrays['log_scale'] = np.array([-1, 9], np.float32)
    save_file(arrays, folder / MODEL)
    assert load_model(folder)[0].log_scale.asnumpy().tolist() == [0, np.float32(np.log(100))]


def copied(saved, tmp_path):
    folder = tmp_path / 'copy'
    folder.mkdir()
    for file in saved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


CHANGES = {
    'missing': (lambda arrays: arrays.pop('log_scale'), 'log_scale is missing'),
    'unknown': (lambda arrays: arrays.update(extra=np.zeros(2, np.float32)), 'extra is not in this model'),
    'prefixed': (lambda arrays: arrays.update({'module.log_scale': arrays.pop('log_scale')}),
                 'log_scale is missing; module.log_scale is not in this model'),
    'shape': (lambda arrays: arrays.update(log_scale=np.zeros(3, np.float32)),
              r'log_scale has shape \(3,\), the model wants \(2,\)'),
    'type': (lambda arrays: arrays.update(log_scale=np.zeros(2, np.float16)), 'log_scale is float16.* wants Float32'),
}


@pytest.mark.parametrize('change', CHANGES)
def test_what_does_not_fit_is_refused_by_name_and_nothing_is_changed(change, fresh, saved, tmp_path):
    folder = copied(saved, tmp_path)
    arrays = load_file(folder / MODEL)
    edit, message = CHANGES[change]
    edit(arrays)
    save_file(arrays, folder / MODEL)
    before = values(fresh)
    with pytest.raises(InputError, match=f'model.safetensors: does not fit the model: {message}'):
        restore(fresh.network.model.get_parameters(), folder / MODEL)
    assert same(values(fresh), before)


def test_a_long_list_of_misfits_is_cut_and_counted(fresh, saved, tmp_path):
    arrays = {f'module.{name}': array for name, array in load_file(saved / MODEL).items()}
    save_file(arrays, tmp_path / MODEL)
    with pytest.raises(InputError, match=f'; .* and {2 * len(arrays) - 5} more$'):
        restore(fresh.network.model.get_parameters(), tmp_path / MODEL)


@pytest.mark.parametrize('file', [MODEL, STATE])
@pytest.mark.parametrize('share', [0, 0.001, 0.5, 0.999])
def test_a_truncated_file_is_refused(file, share, fresh, saved, tmp_path):
    folder = copied(saved, tmp_path)
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[:int(len(content) * share)])
    with pytest.raises(InputError, match=f'{file}: cannot be read .*take another checkpoint'):
        load_state(folder, fresh)


def test_the_newest_checkpoint_of_a_run_is_taken_or_the_one_that_is_named(saved):
    run = saved.parent.parent
    older = checkpoint_path(run, 3)
    older.mkdir()
    (older / MODEL).write_bytes(b'')
    assert checkpoints(run) == [older, saved]
    assert (resolve_checkpoint(run), resolve_checkpoint(older)) == (saved, older)


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / 'none'):
        with pytest.raises(InputError, match='neither a checkpoint nor a run with one; train first'):
            resolve_checkpoint(folder)


def folders(run, *names):
    for name in names:
        (run / 'checkpoints' / name).mkdir(parents=True)
        (run / 'checkpoints' / name / MODEL).write_bytes(b'weights')


def test_only_the_newest_checkpoints_are_kept_and_left_overs_go(tmp_path):
    folders(tmp_path, *(f'step_{step:08d}' for step in (5, 10, 90, 100)), 'mine',
            '.step_00000005.old', '.step_00000100.partial')
    keep_newest(tmp_path, 2)
    assert sorted(path.name for path in (tmp_path / 'checkpoints').iterdir()) == [
        'mine', 'step_00000090', 'step_00000100']
    keep_newest(tmp_path, 5)
    assert len(checkpoints(tmp_path)) == 2


@pytest.mark.parametrize('name', ['.step_00000009.partial', '.step_00000009.old', 'step_9', 'step_00000009.tmp'])
def test_what_is_not_whole_is_no_checkpoint(name, tmp_path):
    folders(tmp_path, name)
    assert checkpoints(tmp_path) == []
    with pytest.raises(InputError, match='neither a checkpoint'):
        resolve_checkpoint(tmp_path)


def test_a_save_that_fails_half_way_leaves_no_trace(trained, recipe, tokenizer, tmp_path, monkeypatch):
    def full(arrays, path, metadata=None):
        path.write_bytes(b'half')
        if path.name == STATE:
            raise OSError(28, 'No space left on device')
    monkeypatch.setattr(checkpoint, 'save_file', full)
    with pytest.raises(InputError, match='the disk is full'):
        save_checkpoint(checkpoint_path(tmp_path, 1), trained, recipe, tokenizer, PROGRESS)
    assert not any((tmp_path / 'checkpoints').iterdir())


# Writes the files of a checkpoint: so many whole, the next one half, and then it is killed.
KILLED_WRITE = '''
import os, pathlib, shutil, signal, sys
from hcma.data import whole
place, whole_files = sys.argv[1], int(sys.argv[2])
with whole.appearing_folder(place, True, 'model.safetensors') as partial:
    for number, name in enumerate(['model.safetensors', 'state.safetensors', 'recipe.yaml', 'tokenizer.json']):
        pathlib.Path(partial, name).write_bytes(b'12345678'[:8 if number < whole_files else 4])
        if number == whole_files:
            os.kill(os.getpid(), signal.SIGKILL)
    if whole_files == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    shutil.rmtree = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.mark.parametrize('whole_files', [0, 1, 3, 4, 5])
def test_a_write_that_is_killed_leaves_a_whole_checkpoint_or_none(whole_files, tmp_path):
    folders(tmp_path, 'step_00000001')
    place = checkpoint_path(tmp_path, 2)
    done = subprocess.run([sys.executable, '-c', KILLED_WRITE, place, str(whole_files)])
    assert done.returncode == -signal.SIGKILL
    if whole_files < 5:
        assert resolve_checkpoint(tmp_path) == checkpoint_path(tmp_path, 1)
    else:  # killed just after it was in its place
        assert resolve_checkpoint(tmp_path) == place
        assert [file.read_bytes() for file in place.iterdir()] == [b'12345678'] * 4
