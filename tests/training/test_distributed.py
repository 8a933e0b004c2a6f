"""Ranks are one process: losses, weights, data, runs that are resumed on others; and what happens where one dies."""
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from hcma import distributed
from hcma.data.pipeline import TrainingBatches
from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from hcma.job import Job, free_port, require_free, require_rank_table
from hcma.recipe_io import dump_recipe
from hcma.training.checkpoint import MODEL, checkpoint_step, checkpoints
from hcma.training.sharding import owners
from hcma.training.trainer import build_step, train
from helpers.packs import make_pack
from helpers.ranks_job import compare, environment

SHALLOW = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}


@pytest.mark.parametrize('mode, case', [pytest.param('graph', 'staged, sharded', marks=pytest.mark.graph),
                                        ('pynative', 'sigmoid')])
def test_two_ranks_are_one_process(mode, case, tmp_path):
    largest, name, allowed = compare(2, mode, [case], tmp_path)[case]
    assert largest <= allowed, name


@pytest.mark.parametrize('ranks', [2, 3, 8])
def test_moments_are_spread_evenly_and_by_names_and_sizes_alone(ranks, make_recipe, vocabulary):
    parameters = build_step(make_recipe(), vocabulary, 1).optimizer.parameters
    owner = dict(zip([parameter.name for parameter in parameters], owners(parameters, ranks)))
    load = [sum(p.size for p in parameters if owner[p.name] == rank) for rank in range(ranks)]
    largest = max(p.size for p in parameters)
    assert set(owner.values()) == set(range(ranks))
    assert max(load) <= sum(load) / ranks + largest and max(load) - min(load) <= largest
    again = parameters[::-1]
    assert dict(zip([parameter.name for parameter in again], owners(again, ranks))) == owner


@pytest.mark.parametrize('ranks, batch', [(1, 7), (2, 4), (3, 6), (4, 4)])
def test_ranks_share_an_epoch_without_repeats_or_gaps(ranks, batch, make_recipe, tmp_path):
    data = str(make_pack(tmp_path, count=13))
    recipe = make_recipe(train={'batch_size': batch}, data={'train': data})
    tokenizer = train_tokenizer(['a red cat'], 300, recipe.model.text.length)
    made = [TrainingBatches(data, recipe, tokenizer, rank, ranks) for rank in range(ranks)]
    seen = [[columns[-1].asnumpy()[:, 0] for columns in one.epoch(3)] for one in made]
    assert {len(own) for own in seen} == {13 // batch}
    pictures = np.concatenate([rows for own in seen for rows in own])
    assert len(set(pictures)) == len(pictures) == 13 // batch * batch


def launch(recipe, run, *arguments):
    path = run.with_suffix('.yaml')
    path.write_text(dump_recipe(recipe), encoding='utf-8')
    return subprocess.Popen([sys.executable, '-m', 'hcma.launch', str(path), '--out', str(run), *arguments],
                            env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end_of(process, seconds):
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # the second time nothing is waited for
        raise


def worker(launcher, rank):
    """The process of a rank."""
    for process in psutil.Process(launcher.pid).children(True):
        environment = process.environ()
        if (environment.get('MS_ROLE'), environment.get('RANK_ID')) == ('MS_WORKER', str(rank)):
            return process


def test_a_rank_that_dies_ends_the_job_and_another_number_of_ranks_goes_on(make_recipe, tmp_path):
    data = {'train': str(make_pack(tmp_path / 'data', count=13))}
    recipe = make_recipe(model=SHALLOW, loss={'levels': ['sentence_global']}, data=data,
                         train={'mode': 'pynative', 'epochs': 8, 'batch_size': 4, 'checkpoint_every': 4, 'eps': 1e-3})
    launcher, started = launch(recipe, tmp_path / 'run', '--ranks', '2'), time.monotonic()
    while not checkpoints(tmp_path / 'run') and time.monotonic() < started + 100 and launcher.poll() is None:
        time.sleep(0.2)
    worker(launcher, 1).kill()
    _, told = end_of(launcher, 60)
    assert launcher.returncode == 1 and 'rank 1 was ended by signal 9' in told and 'worker_1.log' in told
    assert checkpoint_step(checkpoints(tmp_path / 'run')[-1]) < 24, 'it was killed too late'
    assert train(recipe, tmp_path / 'run', resume=True) and train(recipe, tmp_path / 'straight')
    resumed, straight = (load_file(checkpoints(tmp_path / run)[-1] / MODEL) for run in ('run', 'straight'))
    for name, expected in straight.items():
        np.testing.assert_allclose(resumed[name], expected, rtol=1e-4, atol=1e-5)
    losses = [[json.loads(line)['loss'] for line in open(tmp_path / run / 'log.jsonl')] for run in ('run', 'straight')]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_of_mindspores_own_log_errors_are_shown_and_no_more(tmp_path, capsys):
    pieces = ['\rrun: 50%', '\n[INFO] DISTRI', 'BUTED(1) ended\n[ERROR] ME(1) ', 'failed\n[INFO] DISTRIBUTED(2)']
    (tmp_path / 'msrun.log').touch()

    def poll():
        with open(tmp_path / 'worker_0.log', 'a', encoding='utf-8', newline='') as log:
            log.write(pieces.pop(0))
        return None if pieces else 0
    job = Job([], [], tmp_path, local=0)
    job.process = SimpleNamespace(poll=poll)
    job._follow()
    assert capsys.readouterr().err == '\rrun: 50%\n[ERROR] ME(1) failed\n'


def test_what_cannot_start_ends_in_a_sentence(make_recipe, tmp_path):
    recipe = make_recipe(train={'batch_size': 4}, data={'train': str(tmp_path / 'none')})
    launcher = launch(recipe, tmp_path / 'run', '--ranks', '3')
    _, told = end_of(launcher, 60)
    assert launcher.returncode == 2
    assert told == 'error: train.batch_size: 4 cannot be shared by 3 ranks; take a multiple\n'
    port = free_port()
    with pytest.raises(InputError, match='--port 99999'):
        require_free(99999)
    require_free(port)
    table = tmp_path / 'table.json'
    table.write_text('{"server_list": [{"device": [{}, {}]}]}')
    require_rank_table(str(table), 2)
    with pytest.raises(InputError, match='lists 2 devices, but --ranks is 8'):
        require_rank_table(str(table), 8)
    table.write_text('[]')
    with pytest.raises(InputError, match='is no rank table'):
        require_rank_table(str(table), 8)


def test_one_rank_agrees_with_itself():
    assert distributed.everyone(3, 0.5).tolist() == [[3.0, 0.5]] and not distributed.any_rank(False)
    distributed.require_same(recipe='one')
