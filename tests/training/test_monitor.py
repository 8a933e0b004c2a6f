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
STEPS, SPOILT = 24, 14  # of the run, and the step before which it is spoilt
SPIKE = {'window': 8, 'loss_deviations': 3.0, 'gradient_spike': 'ignore', 'look_every': 4, 'lr_steps': 5}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return str(make_pack(tmp_path_factory.mktemp('data'), count=26))


@pytest.fixture
def run(data, make_recipe, tmp_path):
    """``run(name, callbacks, stability, resume, **sections)``: the run's folder, its events and what stopped it."""
    def go(name='run', callbacks=(), stability=None, resume=False, **sections):
        extra = sections.pop('train', {})
        recipe = make_recipe(
            model={'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}},
            loss={'levels': ['sentence_global'], **sections.pop('loss', {})}, data={'train': data},
            stability=stability or {},
            train={'mode': 'pynative', 'epochs': 4, 'batch_size': 4, 'checkpoint_every': 4, **extra}, **sections)
        try:
            train(recipe, tmp_path / name, resume, callbacks)
            failure = None
        except Diverged as error:
            failure = str(error)
        return tmp_path / name, events(tmp_path / name), failure
    return go


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / LOG).read_text().splitlines()]


def events(run_dir):
    return [line for line in lines(run_dir) if 'event' in line]


def rates(run_dir):
    return {line['step']: line['lr'] for line in lines(run_dir) if 'lr' in line}


def spoil(factor=-30.0):
    return [Poison(SPOILT, WEIGHT, factor)]


def test_a_healthy_run_has_no_events(run):
    folder, found, failure = run()
    assert found == [] and failure is None and len(lines(folder)) == STEPS


def test_a_spike_is_logged_where_it_is_and_read_by_the_report(run):
    folder, found, failure = run(callbacks=spoil(), stability=SPIKE)
    (event,) = found
    assert failure is None and (event['event'], event['step'], event['action']) == ('loss_spike', SPOILT, 'warn')
    assert event['loss'] > event['usual'] and event['noticed'] == 16
    assert [(one['event'], one['step']) for one in read_log(folder / LOG).events] == [('loss_spike', SPOILT)]


def test_the_rate_is_lowered_for_a_while(run):
    usual = rates(run('healthy')[0])
    folder, (event,), _ = run(callbacks=spoil(), stability={**SPIKE, 'loss_spike': 'lower_lr', 'lr_factor': 0.25})
    assert event['action'] == 'lower_lr'
    for step, rate in rates(folder).items():  # noticed after 16, for 5 steps
        assert rate == pytest.approx(usual[step] * (0.25 if 17 <= step <= 21 else 1)), step


def test_the_rate_is_lower_while_the_loss_scale_is_below_the_bound(run):
    usual = rates(run('healthy')[0])
    folder, (event,), _ = run(stability={'low_scale': 32, 'low_scale_lr': 0.5, 'look_every': 1},
                              train={'loss_scale': {'initial': 16, 'window': 10}})
    assert (event['event'], event['step']) == ('low_loss_scale', 1)
    for step, rate in rates(folder).items():  # the scale is 32 from the 11th step on, which is seen after it
        assert rate == pytest.approx(usual[step] * (0.5 if step <= 11 else 1)), step


@pytest.mark.graph
def test_a_rollback_takes_the_last_good_weights_and_goes_on_with_new_data(run):
    folder, (event,), failure = run(callbacks=spoil(), train={'mode': 'graph'},
                                    stability={**SPIKE, 'loss_spike': 'rollback'})
    assert failure is None and (event['step'], event['noticed'], event['to']) == (SPOILT, 16, 12)
    loss, rate = ({line['step']: line[key] for line in lines(folder) if key in line} for key in ('loss', 'lr'))
    assert list(loss) == list(range(1, STEPS + 1))  # no batch is seen twice
    assert loss[SPOILT] > 1.05 * loss[13] and loss[17] < 1.05 * loss[13]
    assert rate[17] == rate[13]  # the schedule goes back with the weights


def test_rollbacks_come_to_an_end(run):
    callbacks = [Poison(at, WEIGHT, np.nan) for at in (6, 14, 22)]
    stability = {'nonfinite': 'rollback', 'rollbacks': 2, 'check_every': 4}
    _, found, failure = run(callbacks=callbacks, stability=stability)
    assert [(event['step'], event.get('to')) for event in found] == [(8, 4), (16, 12), (24, None)]
    assert 'after 2 rollbacks' in failure and 'step_00000020' in failure


def test_a_rollback_without_a_checkpoint_stops(run):
    _, _, failure = run(callbacks=[Poison(2, WEIGHT, np.nan)], stability={'nonfinite': 'rollback', 'check_every': 3})
    assert 'no checkpoint to go back to' in failure and 'last good checkpoint is not there yet' in failure


def test_weights_that_are_not_finite_stop_the_run_by_name_and_are_never_saved(run):
    folder, (event,), failure = run(callbacks=spoil(np.nan), stability={'check_every': 5})
    assert (event['event'], event['step']) == ('nonfinite_weights', 15)
    assert f'first the weight {WEIGHT}, tensors 1' in failure
    assert f'the last good checkpoint is {folder / "checkpoints" / "step_00000012"}' in failure
    assert [path.name for path in checkpoints(folder)] == ['step_00000008', 'step_00000012']


@pytest.mark.parametrize('parts', [{}, {'image_micro_batch': 3}])
def test_a_scale_that_sinks_to_its_floor_stops_with_the_first_tensor_that_is_not_finite(parts, run):
    """1e30 in the weights is finite, the squares of what it makes are not; noticed at once, though looks are rare."""
    folder, (event,), failure = run(callbacks=spoil(1e30), stability={'look_every': 10, 'check_every': 1000},
                                    train={'loss_scale': {'initial': 16}, **parts})
    assert (event['event'], event['step'], event['noticed']) == ('loss_scale_floor', SPOILT + 4, SPOILT + 4)
    assert event['first'] == 'the output of image_tower.to_global'
    assert 'loss scale floor' in failure and event['first'] in failure and 'step_00000012' in failure
    scales = [line['loss_scale'] for line in lines(folder) if 'loss_scale' in line and 'loss' in line]
    assert scales[-5:] == [16, 8, 4, 2, 1]


def test_a_poisoned_moment_is_found_as_the_gradient_or_weight_it_spoils(run):
    _, _, failure = run(callbacks=[Poison(5, f'moment1.{WEIGHT}', np.inf)], stability={'check_every': 2})
    assert f'the weight {WEIGHT}' in failure


def test_a_learned_temperature_at_its_clamp_is_told(run):
    _, (event,), _ = run(callbacks=[Poison(SPOILT, 'log_scale', 10.0)],
                         stability={'loss_spike': 'ignore', 'gradient_spike': 'ignore'})
    assert event['event'] == 'temperature_at_clamp_sentence_global' and event['step'] >= SPOILT


def test_a_frozen_temperature_at_its_clamp_is_no_trouble(run):
    _, found, _ = run(stability={'loss_spike': 'ignore', 'gradient_spike': 'ignore'},
                      loss={'temperature': {'initial': 0.01, 'learnable': False}})
    assert found == []


# ---- resuming

@pytest.mark.parametrize('action, at', [('lower_lr', 15), ('lower_lr', 18), ('rollback', 15)])
def test_a_run_in_trouble_that_is_resumed_ends_as_if_it_had_never_stopped(action, at, run):
    """Stopped while a spike waits to be noticed, and after it was."""
    stability = {**SPIKE, 'loss_spike': action}
    straight, expected, _ = run('straight', spoil(), stability)
    run('broken', [*spoil(), Stop(at)], stability)
    broken, found, _ = run('broken', (), stability, resume=True)
    assert found == expected and len(found) == 1
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
