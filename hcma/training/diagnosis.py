"""Which tensor is not finite: among the weights by a compiled check, in a step by going through it once more."""
import contextlib

import mindspore as ms
import numpy as np
from mindspore import ParameterTuple, Tensor, nn, ops

from hcma import distributed

_has_bad = ops.MultitypeFuncGraph('has_bad')


@_has_bad.register('Tensor')
def _has_bad_one(x):
    return ops.cast(ops.logical_not(ops.isfinite(x).all()), ms.float32).reshape(1)


class NonFinite(nn.Cell):
    """``names()`` are those of the ``parameters`` that hold NaN or Inf; the device sends one number for each."""

    def __init__(self, parameters):
        super().__init__(auto_prefix=False)
        self.parameters = ParameterTuple(parameters)
        self.map = ops.HyperMap()

    def construct(self):
        return ops.concat(self.map(_has_bad, self.parameters))

    def names(self):
        """The names; waits for the device."""
        return [parameter.name for parameter, bad in zip(self.parameters, self().asnumpy()) if bad]


def first_nonfinite(step, nonfinite, batch):
    """In words, what is the first tensor that is not finite in a training ``step`` on ``batch``.

    Looked for in the order in which one makes another: weights (``nonfinite`` is their ``NonFinite``), the batch, the
    outputs of the network's cells in the order in which they finish, gradients of the loss times the loss scale, and
    their norm. All ranks look together, and end where one has found something.
    """
    with _pynative():
        for look in (_first_weight, _first_input, _first_output, _first_gradient):
            found = look(step, nonfinite, batch)
            finders = np.flatnonzero(distributed.everyone(found is not None)[:, 0])
            if len(finders):
                return found or f'something on rank {finders[0]} (see its log)'
    return 'the norm of the gradients, which are finite themselves'


def _first_weight(step, nonfinite, batch):
    names = nonfinite.names()
    return f'the weight {names[0]}' if names else None


def _first_input(step, nonfinite, batch):
    bad = [place for place, column in enumerate(batch) if not _is_finite(column)]
    return f'input {bad[0]} of the batch' if bad else None


def _first_gradient(step, nonfinite, batch):
    bad = [name for name, gradient in step.gradients(*batch).items() if not _is_finite(gradient)]
    return f'the gradient of {bad[0]}' if bad else None


@contextlib.contextmanager
def _pynative():
    """Cells are called one by one, so that their outputs can be seen."""
    mode = ms.get_context('mode')
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=mode)


def _first_output(step, nonfinite, batch):
    """The first cell whose output is not finite, or None."""
    network, found, handles = step.network, [], []

    def look(name):
        def hook(cell, inputs, output):
            if not found and not all(map(_is_finite, output if isinstance(output, tuple) else (output,))):
                found.append(name)
        return hook
    for name, cell in network.cells_and_names():
        handles.append(cell.register_forward_hook(look(name.removeprefix('model.') or 'the loss')))
    network(*batch)
    for handle in handles:
        handle.remove()
    return f'the output of {found[0]}' if found else None


def _is_finite(value):
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return True
    return bool(np.isfinite(ops.cast(value, ms.float32).asnumpy()).all())
