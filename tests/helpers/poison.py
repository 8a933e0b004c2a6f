"""Callbacks that spoil a run as a wrong update, a bad picture or a power cut would."""
from mindspore import Tensor, ops
from mindspore.train.callback import Callback


class Poison(Callback):
    """Multiplies a parameter of the step by ``factor`` before step ``at``."""

    def __init__(self, at, name, factor):
        self.at, self.name, self.factor = at, name, factor

    def on_train_step_begin(self, run_context):
        run = run_context.original_args()
        if run.cur_step_num + 1 == self.at:
            (found,) = (p for p in run.train_network.get_parameters() if p.name == self.name)
            ops.assign(found, Tensor(found.asnumpy() * self.factor, found.dtype))


class Stop(Callback):
    """Ends a run after step ``at``."""

    def __init__(self, at):
        self.at = at

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.at:
            run_context.request_stop()
