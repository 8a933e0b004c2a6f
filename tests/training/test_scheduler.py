"""The modal scheduler: what it chooses and why, that no sample is lost on the way, and where it is of no use."""
import json
from types import SimpleNamespace

import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore.train import Model
from safetensors.numpy import load_file

from hcma import backend
from hcma.errors import InputError
from hcma.training import scheduler
from hcma.training.checkpoint import MODEL, checkpoints
from hcma.training.run_folder import LOG
from hcma.training.scheduler import GIB, AsyncModalScheduler
from hcma.training.trainer import build_step, train
from helpers.copy_run import Copy
from helpers.packs import make_pack

SHALLOW = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
BEST = {'image': 16, 'text': 64}  # rows at once beyond which the fake device gets no faster


def read_log(run):
    return [json.loads(line) for line in (run / LOG).read_text().splitlines()]


class FakeTower:
    def __init__(self, rows, size):
        self.rows, self.size = rows, size

    @property
    def at_once(self):
        return min(self.size, self.rows)


@pytest.fixture
def search(monkeypatch):
    """``search(budget)``: the scheduler after its search on a fake device of 10 MiB for each picture at once."""
    def run(budget=None, batch=64):
        towers = {name: FakeTower(batch, 4) for name in BEST}
        memory = SimpleNamespace(peak=GIB)
        monkeypatch.setattr(backend, 'peak_memory', lambda: memory.peak)
        one = AsyncModalScheduler(plan='auto', memory_budget=budget)
        clock = SimpleNamespace(seconds={}, waits=False, since=lambda before: {
            f'{name}s': batch / min(tower.at_once, BEST[name]) for name, tower in towers.items()})
        one.step, one.towers = SimpleNamespace(clock=clock), towers
        for _ in one._search():
            held = sum(tower.at_once for tower in towers.values())
            memory.peak = max(memory.peak, GIB + 10 * 2 ** 20 * held)
        return one, {name: tower.at_once for name, tower in towers.items()}
    return run


def test_rows_are_doubled_until_that_is_no_faster(search):
    one, sizes = search()
    assert sizes == {'image': 16, 'text': 64}
    reasons = [entry['why'] for entry in one.history if 'why' in entry]
    assert reasons == ['scheduler: 16 images at once of 64: 32 at once are 0% faster',
                       'scheduler: 64 texts at once of 64: that is all']
    tried = [(entry['image'], entry['text']) for entry in one.history if 'why' not in entry]
    assert tried == [(4, 4), (8, 4), (16, 4), (32, 4), (16, 8), (16, 16), (16, 32), (16, 64)]


@pytest.mark.parametrize('budget', [1.09, 1.2, 1.35])
def test_the_peak_never_passes_the_budget(search, budget):
    one, sizes = search(budget)
    peaks = [entry['peak_gib'] for entry in one.history if 'why' not in entry]
    assert max(peaks) <= budget
    assert any('GiB' in entry['why'] for entry in one.history if 'why' in entry)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return str(make_pack(tmp_path_factory.mktemp('scheduler'), count=24))


@pytest.mark.graph
def test_a_run_that_searches_trains_as_one_that_does_not(data, make_recipe, tmp_path):
    ends, common = [], {'batch_size': 8, 'epochs': 4, 'eps': 1e-3}
    for number, plan in enumerate(({}, {'plan': 'auto', 'image_micro_batch': 2})):
        recipe = make_recipe(model=SHALLOW, data={'train': data}, train={**common, **plan})
        assert train(recipe, tmp_path / str(number))
        ends.append(load_file(checkpoints(tmp_path / str(number))[-1] / MODEL))
    assert [line['step'] for line in read_log(tmp_path / '1')] == list(range(1, 13))
    for name, expected in ends[0].items():
        np.testing.assert_allclose(ends[1][name], expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max() + 1e-7)
    last = read_log(tmp_path / '1')[-1]
    shares = [last[f'time_{part}'] for part in ('data', 'images', 'texts', 'loss', 'update', 'host')]
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert last['utilisation'] == pytest.approx(sum(shares[1:5]), abs=1e-3)


def test_it_drives_mindspores_own_model(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(model=SHALLOW, train={'batch_size': 6, 'text_micro_batch': 6})
    step = build_step(recipe, vocabulary, 10)
    batch = [column.asnumpy() for column in make_batch(recipe, 12)]
    rows = ds.NumpySlicesDataset(tuple(batch), list(recipe.columns), shuffle=False).batch(6)
    one = AsyncModalScheduler(image_batch_scale=3)
    Model(step).train(1, rows, callbacks=[one], dataset_sink_mode=False)
    assert (step.image.at_once, step.text.at_once) == (2, 6)
    assert int(step.optimizer.step.asnumpy()) == 2


@pytest.mark.parametrize('network, sink, scale, message', [
    ('fused', False, 1, 'schedules a StagedTrainStep only'), ('staged', True, 1, 'dataset_sink_mode=False'),
    ('staged', False, 7, 'image_batch_scale is 7, but a batch of 6 can be cut into 1 to 6')])
def test_what_it_cannot_schedule_is_refused(network, sink, scale, message, make_recipe, vocabulary):
    micro = {'text_micro_batch': 6} if network == 'staged' else {}
    recipe = make_recipe(model=SHALLOW, train={'batch_size': 6, **micro})

    class Run(dict):
        __getattr__ = dict.__getitem__

    run = Run(train_network=build_step(recipe, vocabulary, 10), dataset_sink_mode=sink, batch_size=6)
    with pytest.raises(InputError, match=message):
        AsyncModalScheduler(image_batch_scale=scale).on_train_begin(SimpleNamespace(original_args=lambda: run))


def test_a_budget_too_small_for_one_sample_is_refused_before_training(make_recipe):
    with pytest.raises(InputError, match='train.memory_budget: 0.01 GiB is too small even for one sample'):
        scheduler.scheduler_of(make_recipe(train={'plan': 'auto', 'memory_budget': 0.01}))


@pytest.mark.parametrize('train, message', [
    ({'memory_budget': 2}, 'add plan: auto'),
    ({'batch_warmup': {'batch_size': 64}}, 'is not less than the batch_size')])
def test_recipes_that_contradict_themselves_are_refused(train, message, make_recipe):
    with pytest.raises(InputError, match=message):
        make_recipe(train=train)


def test_small_batches_come_first_and_a_resumed_run_knows(data, make_recipe, tmp_path):
    recipe = make_recipe(model=SHALLOW, data={'train': data}, train={
        'mode': 'pynative', 'batch_size': 8, 'epochs': 3, 'batch_warmup': {'batch_size': 4}, 'checkpoint_every': 3})
    straight, killed = tmp_path / 'straight', tmp_path / 'killed'
    assert train(recipe, straight, callbacks=[Copy(straight, killed)])
    assert [line['epoch'] for line in read_log(straight)] == [1] * 6 + [2] * 3 + [3] * 3
    assert train(recipe, killed, resume=True)
    ends = [(checkpoints(run)[-1] / MODEL).read_bytes() for run in (straight, killed)]
    assert ends[0] == ends[1]
