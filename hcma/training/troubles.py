"""What goes wrong in training, found in the metrics of its steps: spikes, temperatures at a clamp, a low loss scale.

Everything here is plain numbers, a function of the steps alone, and comes back from a checkpoint, so a run that is
resumed finds what it would have found.
"""
from dataclasses import dataclass

import numpy as np

FLOOR = 1.0  # of the loss scale: MindSpore's update halves it no further
# 1 / 0.6745 makes a median of absolute deviations a standard deviation where values are normal.
_ROBUST = 1.4826
# A loss that hardly moves has next to no deviation: a share of the median stands in for it.
_LEAST = 0.01


@dataclass(frozen=True)
class Trouble:
    """What happened at a step, the recipe's answer, and numbers for the log."""
    kind: str
    step: int
    action: str
    details: dict


class Spikes:
    """Tells the values of one metric that lie far above the last ``size`` ones."""

    def __init__(self, size, deviations):
        self.size, self.deviations = size, deviations
        self.values = []

    def see(self, value):
        """The median of the values before, if ``value`` is far above it; else None."""
        usual = self._usual(value) if len(self.values) == self.size else None
        self.values = [*self.values, value][-self.size:]
        return usual

    def _usual(self, value):
        median = float(np.median(self.values))
        spread = _ROBUST * float(np.median(np.abs(np.array(self.values) - median)))
        return median if value > median + self.deviations * max(spread, _LEAST * abs(median)) else None


class Detector:
    """``examine(row)`` of each step's metrics gives the list of ``Trouble`` that begins there.

    ``stability`` is the recipe's section, ``watched`` are the names of the metrics that are learned 1 / temperatures,
    ``loss_scale`` is where that starts, ``coldest`` the least temperature. A trouble that lasts is told once.
    ``last_good`` is the last step that was neither a spike nor skipped.
    """

    def __init__(self, stability, watched, loss_scale, coldest):
        self.stability, self.watched, self.largest = stability, watched, 1 / coldest
        self.spikes = {'loss': Spikes(stability.window, stability.loss_deviations),
                       'grad_norm': Spikes(stability.window, stability.gradient_deviations)}
        self.lasting = []
        self.loss_scale = loss_scale
        self.last_good = 0

    def examine(self, row):
        """The troubles that begin with this step."""
        found = list(self._found(row))
        new = [trouble for trouble in found if trouble.kind not in self.lasting]
        self.lasting = [trouble.kind for trouble in found]
        if not row['overflow'] and not {'loss_spike', 'gradient_spike'} & set(self.lasting):
            self.last_good = row['step']
        return new

    def _found(self, row):
        self.loss_scale = row['loss_scale']
        if row['overflow']:
            if row['loss_scale'] <= FLOOR:
                yield Trouble('loss_scale_floor', row['step'], 'stop', {'loss_scale': row['loss_scale']})
        else:
            yield from self._spikes(row)
        for name in self.watched:
            if not 1 + 1e-4 < row[name] < self.largest * (1 - 1e-4):
                yield Trouble(f'temperature_at_clamp_{name.removeprefix("scale_")}', row['step'],
                              self.stability.temperature, {'scale': row[name]})
        if self.has_low_scale():
            yield Trouble('low_loss_scale', row['step'], 'warn', {'loss_scale': row['loss_scale']})

    def _spikes(self, row):
        for name, kind in (('loss', 'loss_spike'), ('grad_norm', 'gradient_spike')):
            usual = self.spikes[name].see(row[name])
            if usual is not None:
                yield Trouble(kind, row['step'], getattr(self.stability, kind), {name: row[name], 'usual': usual})

    def has_low_scale(self):
        """Whether the loss scale of the last step is below the recipe's bound."""
        return self.stability.low_scale is not None and self.loss_scale < self.stability.low_scale

    def state(self):
        """What a checkpoint keeps, for JSON."""
        values = {name: spikes.values for name, spikes in self.spikes.items()}
        return {'values': values, 'lasting': self.lasting, 'loss_scale': self.loss_scale,
                'last_good': self.last_good}

    def restore(self, state):
        """Go on from ``state()``."""
        for name, values in state['values'].items():
            self.spikes[name].values = values
        self.lasting, self.loss_scale, self.last_good = (state[key] for key in ('lasting', 'loss_scale', 'last_good'))
