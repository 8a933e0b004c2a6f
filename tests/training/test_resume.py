"""A run that was stopped or killed at any moment and goes on ends as if it had never stopped, to the bit."""
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mindspore.train.callback import Callback

from hcma.errors import InputError
from hcma.recipe_io import dump_recipe, load_recipe, parse_recipe
from hcma.training.checkpoint import MODEL, STATE, checkpoints
from hcma.training.run_folder import LOG, RECIPE
from hcma.training.trainer import train
from helpers.packs import make_pack

HELPERS = Path(__file__).parents[1] / 'helpers'
TRAIN = Path(__file__).parents[2] / 'tools' / 'train.py'
PAIRS, BATCH, EPOCHS = 26, 4, 2
STEPS = EPOCHS * (PAIRS // BATCH)
# What a clock decides; everything else in a line of the log is computed.
CLOCK = {'images_per_s', 'utilisation', 'time_data', 'time_step', 'time_host'}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return make_pack(tmp_path_factory.mktemp('data'), count=PAIRS)


@pytest.fixture(scope='module')
def recipe(data):
    return small_recipe(data)


def small_recipe(data, seed=0, lr=1e-2, epochs=EPOCHS, workers=1, **train_keys):
    """A model that compiles in a second: without blocks, trained on one level."""
    return parse_recipe({
        'seed': seed, 'data': {'train': str(data), 'workers': workers}, 'loss': {'levels': ['sentence_global']},
        'model': {'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}},
        'train': {'epochs': epochs, 'batch_size': BATCH, 'lr': lr, 'checkpoint_every': 4, 'keep_checkpoints': 1,
                  'loss_scale': {'window': 5}, **train_keys}}, 'recipe of a test')


class Snapshots(Callback):
    """Copies the run's folder after every step: what a kill at that moment would leave."""

    def __init__(self, run, into):
        self.run, self.into = run, into

    def on_train_step_end(self, run_context):
        shutil.copytree(self.run, self.into / str(run_context.original_args().cur_step_num))


@pytest.fixture(scope='module')
def straight(recipe, tmp_path_factory):
    """The folder of an uninterrupted run, with a copy of it after every step under ``at``."""
    folder = tmp_path_factory.mktemp('straight')
    assert train(recipe, folder / 'run', callbacks=[Snapshots(folder / 'run', folder / 'at')])
    return folder


def final(run):
    """The bytes of the weights and of the training state after the last step."""
    last = checkpoints(run)[-1]
    assert last.name == f'step_{STEPS:08d}'
    return {name: (last / name).read_bytes() for name in (MODEL, STATE)}


def logged(run):
    """The lines of the log without what a clock decides."""
    lines = [json.loads(line) for line in (run / LOG).read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in CLOCK} for line in lines]


def require_same(run, straight):
    assert final(run) == final(straight / 'run')
    assert [line['step'] for line in logged(run)] == list(range(1, STEPS + 1))
    assert logged(run) == logged(straight / 'run')


@pytest.mark.graph
def test_the_log_has_each_step_once_and_training_changes_everything_it_should(straight):
    lines = logged(straight / 'run')
    assert [line['step'] for line in lines] == list(range(1, STEPS + 1))
    assert [line['epoch'] for line in lines] == [1] * (STEPS // 2) + [2] * (STEPS // 2)
    for key in ('loss', 'lr', 'scale_sentence_global', 'grad_norm', 'loss_scale'):
        assert len({line[key] for line in lines}) > 1, key


@pytest.mark.graph
def test_the_same_seed_gives_the_same_run_whatever_the_workers_and_the_place_of_the_data(straight, data, tmp_path):
    moved = shutil.copytree(data, tmp_path / 'elsewhere')
    recipe = small_recipe(moved, workers=2, checkpoint_every=7, keep_checkpoints=2)
    assert train(recipe, tmp_path / 'run')
    require_same(tmp_path / 'run', straight)


@pytest.mark.graph
@pytest.mark.parametrize('step', [2, 7])
def test_a_run_that_was_lost_after_a_step_goes_on_to_the_same_end(step, straight, recipe, tmp_path):
    """Before the first checkpoint, and in the second epoch between two."""
    run = shutil.copytree(straight / 'at' / str(step), tmp_path / 'run')
    assert [path.name for path in checkpoints(run)] == ([f'step_{step // 4 * 4:08d}'] if step >= 4 else [])
    assert train(recipe, run, resume=True)
    require_same(run, straight)


@pytest.mark.graph
def test_killed_between_checkpoints_in_one_and_while_an_old_one_is_removed(straight, recipe, tmp_path):
    """Three lives of one run, each ended by SIGKILL, and a fourth that reaches the end."""
    (tmp_path / 'recipe.yaml').write_text(dump_recipe(recipe))
    arguments = [tmp_path / 'recipe.yaml', '--out', tmp_path / 'run', '--resume']
    for moment, step, left in (('after_step', 6, ['step_00000004']),
                               ('in_file', 8, ['.step_00000008.partial', 'step_00000004']),
                               ('in_removal', 4, ['.step_00000004.old', 'step_00000008'])):
        died = subprocess.run([sys.executable, HELPERS / 'dying_train.py', moment, str(step), *arguments],
                              capture_output=True, text=True)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert sorted(path.name for path in (tmp_path / 'run' / 'checkpoints').iterdir()) == left
    done = subprocess.run([sys.executable, TRAIN, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    require_same(tmp_path / 'run', straight)
    assert os.listdir(tmp_path / 'run' / 'checkpoints') == [f'step_{STEPS:08d}']


class Interrupt(Callback):
    """Sends this process a signal after ``step``, as Ctrl-C or a scheduler does."""

    def __init__(self, step, number):
        self.step, self.number = step, number

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.graph
def test_a_signal_ends_the_run_with_a_checkpoint_of_its_step_and_it_goes_on_from_there(straight, recipe, tmp_path):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert train(recipe, tmp_path / 'run', callbacks=[Interrupt(5, signal.SIGTERM)]) is False
    assert [path.name for path in checkpoints(tmp_path / 'run')] == ['step_00000005']
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert train(recipe, tmp_path / 'run', resume=True)
    require_same(tmp_path / 'run', straight)


def everything(folder):
    return {path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes())
            for path in Path(folder).rglob('*') if path.is_file()}


@pytest.mark.graph
def test_a_finished_run_that_is_resumed_stays_as_it_is(straight, recipe, tmp_path):
    run = shutil.copytree(straight / 'run', tmp_path / 'run')
    checkpoint, metrics = everything(run / 'checkpoints'), (run / 'metrics.json').read_bytes()
    assert train(recipe, run, resume=True)
    assert everything(run / 'checkpoints') == checkpoint
    assert (run / 'metrics.json').read_bytes() == metrics
    require_same(run, straight)


REFUSED = {
    'learning rate': ({'lr': 2e-2}, r'its recipe has train\.lr = 0\.01, now it is 0\.02; resume with the same'),
    'length': ({'epochs': 3}, r'its recipe has train\.epochs = 2, now it is 3'),
    'seed': ({'seed': 1}, 'its recipe has seed = 0, now it is 1'),
    'nested key': ({'loss_scale': {'window': 6}}, r'has train\.loss_scale\.window = 5, now it is 6'),
}


@pytest.mark.graph
@pytest.mark.parametrize('change', REFUSED)
def test_another_recipe_is_refused_by_its_key_and_leaves_the_run_alone(change, straight, data):
    changes, message = REFUSED[change]
    before = everything(straight / 'run')
    with pytest.raises(InputError, match=message):
        train(small_recipe(data, **changes), straight / 'run', resume=True)
    assert everything(straight / 'run') == before


@pytest.mark.graph
def test_other_data_is_refused_and_leaves_the_run_alone(straight, tmp_path):
    other = make_pack(tmp_path, count=PAIRS, seed=1)
    before = everything(straight / 'run')
    with pytest.raises(InputError, match='other data than .* was trained on'):
        train(small_recipe(other), straight / 'run', resume=True)
    assert everything(straight / 'run') == before


@pytest.mark.graph
def test_a_run_that_is_there_is_refused_without_resume(straight, recipe):
    before = everything(straight / 'run')
    with pytest.raises(InputError, match='holds a run already; pass --resume'):
        train(recipe, straight / 'run')
    assert everything(straight / 'run') == before


def test_a_start_that_fails_leaves_no_run_that_would_stand_in_the_way(recipe, tmp_path):
    wrong = recipe.model_copy(update={'data': recipe.data.model_copy(update={'tokenizer': 'none.json'})})
    for _ in range(2):
        with pytest.raises(InputError, match='none.json: no such tokenizer'):
            train(wrong, tmp_path / 'run')
    assert not (tmp_path / 'run' / RECIPE).exists()


def test_an_out_folder_that_cannot_be_made_is_refused(recipe, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(InputError, match='cannot be written .*choose another --out'):
        train(recipe, tmp_path / 'file' / 'run')


@pytest.mark.graph
def test_the_run_keeps_the_recipe_it_can_be_resumed_with(straight, recipe):
    assert load_recipe(straight / 'run' / RECIPE) == recipe
