"""A run in trouble warns, slows down, rolls back or stops with a name; resumed, it does what it would have done."""
import json
from pathlib import Path

import numpy as np
import pytest

from hcma.errors import Diverged
from hcma.report.run_files import read_log
from hcma.training.checkpoint import MODEL, STATE, checkpoints
from hcma.training.run_folder import LOG, truncate_log
from hcma.training.trainer import train
from helpers.packs import make_pack
from helpers.poison import Poison, Stop

WEIGHT = 'image_tower.to_global.linear.weight'
pytestmark = pytest.mark.graph  # a run compiles in a second and then takes milliseconds a step
STEPS, SPOILT = 24, 14  # of the run, and the step before which it is spoilt
SPIKE = {'window': 8, 'loss_deviations': 3.0, 'gradient_spike': 'ignore', 'look_every': 4,
         'lr_steps': 5, 'lr_factor': 0.25}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return str(make_pack(tmp_path_factory.mktemp('data'), count=26))


@pytest.fixture(scope='module')
def run(data, make_recipe, tmp_path_factory):
    """``run(callbacks, stability, into, resume, train)``: the run's folder, its events and what stopped it."""
    def go(callbacks=(), stability=None, into=None, resume=False, train_keys=None):
        folder = into or tmp_path_factory.mktemp('runs') / 'run'
        recipe = make_recipe(
            model={'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}},
            loss={'levels': ['sentence_global']}, data={'train': data}, stability=stability or {},
            train={'epochs': 4, 'batch_size': 4, 'checkpoint_every': 4, **(train_keys or {})})
        try:
            train(recipe, folder, resume, callbacks)
            failure = None
        except Diverged as error:
            failure = str(error)
        return folder, [line for line in lines(folder) if 'event' in line], failure
    return go


@pytest.fixture(scope='module')
def healthy(run):
    return run()


@pytest.fixture(scope='module', params=['lower_lr', 'rollback'])
def spoilt(request, run):
    """The answer to a spike, and a run in which there is one."""
    return request.param, run(spike(), {**SPIKE, 'loss_spike': request.param})


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / LOG).read_text().splitlines()]


def column(run_dir, key):
    """A metric by step."""
    return {line['step']: line[key] for line in lines(run_dir) if 'epoch' in line}


def spoil(factor):
    return [Poison(SPOILT, WEIGHT, factor)]


def spike():
    """A temperature that is far too low for one step."""
    return [Poison(SPOILT, 'log_scale', 1.7), Poison(SPOILT + 1, 'log_scale', 1 / 1.7)]


def test_a_healthy_run_has_no_events(healthy):
    folder, found, failure = healthy
    assert found == [] and failure is None and len(lines(folder)) == STEPS


def test_a_spike_is_logged_where_it_is_and_read_by_the_report(spoilt):
    action, (folder, (event,), failure) = spoilt
    assert failure is None and (event['event'], event['step'], event['action']) == ('loss_spike', SPOILT, action)
    assert event['loss'] > event['usual'] and event['noticed'] == 16
    assert [(one['event'], one['step']) for one in read_log(folder / LOG).events] == [('loss_spike', SPOILT)]


def test_the_answer_to_a_spike_is_a_lower_rate_for_a_while_or_older_weights_and_new_data(spoilt, healthy):
    action, (folder, (event,), _) = spoilt
    usual, rate = column(healthy[0], 'lr'), column(folder, 'lr')
    assert list(rate) == list(range(1, STEPS + 1))  # no batch is seen twice
    if action == 'lower_lr':  # noticed after 16, for 5 steps
        expected = {step: value * (0.25 if 17 <= step <= 21 else 1) for step, value in usual.items()}
        assert rate == pytest.approx(expected)
    else:
        assert event['to'] == 12 and rate[17] == rate[13]  # the schedule goes back with the weights


def test_the_rate_is_lower_while_the_loss_scale_is_below_the_bound(run, healthy):
    folder, (event,), _ = run(stability={'low_scale': 32, 'low_scale_lr': 0.5, 'look_every': 1},
                              train_keys={'loss_scale': {'initial': 16, 'window': 10}})
    assert (event['event'], event['step']) == ('low_loss_scale', 1)
    expected = {step: value * (0.5 if column(folder, 'loss_scale')[step] < 32 or step == 11 else 1)
                for step, value in column(healthy[0], 'lr').items()}  # a scale is seen after its step
    assert column(folder, 'lr') == pytest.approx(expected)


def test_rollbacks_come_to_an_end(run):
    callbacks = [Poison(at, WEIGHT, np.nan) for at in (6, 14, 22)]
    stability = {'nonfinite': 'rollback', 'rollbacks': 2, 'check_every': 4}
    _, found, failure = run(callbacks, stability)
    assert [(event['step'], event.get('to')) for event in found] == [(8, 4), (16, 12), (24, None)]
    assert 'after 2 rollbacks' in failure and 'step_00000020' in failure


def test_a_rollback_without_a_checkpoint_stops(run):
    _, _, failure = run([Poison(2, WEIGHT, np.nan)], {'nonfinite': 'rollback', 'check_every': 3})
    assert 'no checkpoint to go back to' in failure and 'last good checkpoint is not there yet' in failure


def test_weights_that_are_not_finite_stop_the_run_by_name_and_are_never_saved(run):
    folder, (event,), failure = run(spoil(np.nan), {'check_every': 5})
    assert (event['event'], event['step']) == ('nonfinite_weights', 15)
    assert f'first the weight {WEIGHT}, tensors 1' in failure
    assert f'the last good checkpoint is {folder / "checkpoints" / "step_00000012"}' in failure
    assert [path.name for path in checkpoints(folder)] == ['step_00000008', 'step_00000012']


@pytest.mark.parametrize('parts', [{}, {'image_micro_batch': 3}])
def test_a_scale_that_sinks_to_its_floor_stops_with_the_first_tensor_that_is_not_finite(parts, run):
    """The weights are finite, their product is not; noticed at once, though looks are rare."""
    large = [*spoil(1e20), Poison(SPOILT, 'image_tower.encoder.norm.gamma', 1e20)]
    folder, (event,), failure = run(large, {'look_every': 10, 'check_every': 1000},
                                    train_keys={'loss_scale': {'initial': 16}, **parts})
    assert (event['event'], event['step'], event['noticed']) == ('loss_scale_floor', SPOILT + 4, SPOILT + 4)
    assert event['first'] == 'the output of image_tower.to_global.linear'
    assert f'loss scale floor (loss_scale 1, first {event["first"]})' in failure and 'step_00000012' in failure
    assert list(column(folder, 'loss_scale').values())[-5:] == [16, 8, 4, 2, 1]


def test_a_learned_temperature_at_its_clamp_is_told(run):
    _, (event,), _ = run([Poison(SPOILT, 'log_scale', 10.0)], {'loss_spike': 'ignore', 'gradient_spike': 'ignore'})
    assert event['event'] == 'temperature_at_clamp_sentence_global' and event['step'] >= SPOILT


def test_a_run_in_trouble_that_is_resumed_ends_as_if_it_had_never_stopped(spoilt, run):
    """Stopped while a spike waits to be noticed."""
    action, (straight, expected, _) = spoilt
    stability = {**SPIKE, 'loss_spike': action}
    broken, found, _ = run([*spike(), Stop(15)], stability)
    assert found == []
    _, found, _ = run((), stability, broken, resume=True)
    assert found == expected
    ends = [checkpoints(folder)[-1] for folder in (straight, broken)]
    for name in (MODEL, STATE):
        assert (ends[0] / name).read_bytes() == (ends[1] / name).read_bytes()


def test_a_log_that_is_cut_keeps_the_events_up_to_there(tmp_path):
    kept = ['{"event": "started"}', '{"step": 1}', '{"event": "odd", "step": 1, "noticed": 2}', '{"event": "note"}',
            '{"step": 2}']
    cut = ['{"event": "spike", "step": 2, "noticed": 3}', '{"step": 3}', '{"event": "note"}', '{"ste']
    Path(tmp_path / LOG).write_text('\n'.join(kept + cut))
    truncate_log(tmp_path, 2)
    assert (tmp_path / LOG).read_text().splitlines() == kept
