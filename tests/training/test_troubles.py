"""Spikes, clamped temperatures and low loss scales are found, once each, as a function of the steps alone."""
import json
import math

import numpy as np
import pytest

from hcma.recipe_stability import Stability
from hcma.training.troubles import Detector, Spikes


def row(step, loss=2.0, norm=1.0, scale=1024.0, overflow=0.0, temperature=14.0):
    return {'step': step, 'loss': loss, 'grad_norm': norm, 'loss_scale': scale, 'overflow': overflow,
            'scale_word_patch': temperature}


def detector(**keys):
    return Detector(Stability(**{'window': 10, **keys}), ['scale_word_patch'], 1024.0, 0.01)


def kinds(found, rows):
    """The kinds of trouble that begin at each step, {step: kinds}."""
    troubles = [trouble for one in rows for trouble in found.examine(one)]
    return {step: [trouble.kind for trouble in troubles if trouble.step == step]
            for step in sorted({trouble.step for trouble in troubles})}


@pytest.mark.parametrize('noise', [0.0, 0.05])
def test_a_spike_is_found_among_noise_and_nothing_else(noise):
    losses = 3 * np.exp(-np.arange(200) / 100) + noise * np.random.default_rng(0).normal(size=200)
    losses[150] += 2
    rows = [row(step, loss) for step, loss in enumerate(losses.tolist())]
    assert kinds(detector(window=30), rows) == {150: ['loss_spike']}


def test_a_spike_is_so_many_deviations_above_the_median():
    values = np.random.default_rng(1).normal(5, 1, 20).tolist()
    median = float(np.median(values))
    bound = median + 6 * 1.4826 * float(np.median(np.abs(np.array(values) - median)))
    for value, expected in ((bound - 1e-6, None), (bound + 1e-6, median)):
        spikes = Spikes(20, 6.0)
        assert [spikes.see(before) for before in values] == [None] * 20
        assert spikes.see(value) == expected


def test_a_loss_that_stays_high_is_told_once_and_then_usual():
    rows = [row(step, 2.0 if step < 20 else 4.0) for step in range(40)]
    assert kinds(detector(), rows) == {20: ['loss_spike']}


def test_gradients_have_their_own_bound_and_skipped_steps_do_not_count():
    rows = [row(step) for step in range(20)] + [row(20, math.nan, math.inf, overflow=1.0), row(21, norm=1.15),
                                                row(22, norm=1.5)]
    found = detector(gradient_deviations=20)
    assert kinds(found, rows) == {22: ['gradient_spike']} and found.last_good == 21


def test_a_temperature_at_its_clamp_is_told_when_it_gets_there():
    rows = [row(step, temperature=value) for step, value in enumerate([99.9, 100.0, 100.0, 50.0, 1.0, 1.0])]
    assert kinds(detector(), rows) == {1: ['temperature_at_clamp_word_patch'], 4: ['temperature_at_clamp_word_patch']}


def test_only_an_overflow_at_scale_one_is_the_floor():
    rows = [row(0, scale=2.0, overflow=1.0), row(1, scale=1.0), row(2, scale=1.0, overflow=1.0)]
    found = detector(low_scale=8)
    (trouble,) = [trouble for one in rows for trouble in found.examine(one) if trouble.kind == 'loss_scale_floor']
    assert (trouble.step, trouble.action) == (2, 'stop') and found.has_low_scale()
    found.examine(row(3, scale=8.0))
    assert not found.has_low_scale()


def test_a_detector_that_is_saved_and_restored_finds_the_same():
    rows = [row(step, loss, norm) for step, (loss, norm) in
            enumerate(np.random.default_rng(2).lognormal(0, 1, (60, 2)).tolist())]
    straight, first, second = (detector(loss_deviations=3, gradient_deviations=3) for _ in range(3))
    expected = [straight.examine(one) for one in rows]
    found = [first.examine(one) for one in rows[:33]]
    second.restore(json.loads(json.dumps(first.state())))
    assert found + [second.examine(one) for one in rows[33:]] == expected
    assert sum(map(len, expected)) > 5 and second.state() == straight.state()
