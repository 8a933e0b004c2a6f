"""The stability monitor: looks for trouble while a run trains, and answers it as the recipe says."""
import sys

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.train.callback import Callback
from tqdm import tqdm

from hcma import distributed
from hcma.training.checkpoint import checkpoint_path, checkpoint_step, checkpoints, load_state
from hcma.training.diagnosis import NonFinite, first_nonfinite
from hcma.training.troubles import FLOOR, Detector, Trouble


class StabilityMonitor(Callback):
    """Examines every step's metrics and, now and then, all weights; warns, lowers the rate, rolls back, or stops.

    It looks after steps that are multiples of ``stability.look_every``, and before every checkpoint of the schedule,
    so what it does is a function of the steps alone, and the same on every rank; after every step while the loss scale
    is so low that it could reach its floor before the next look. ``state()`` is what a checkpoint keeps,
    ``restore(state)`` goes on from it. A run that has to stop gets ``run.failure``, a sentence.
    """

    def __init__(self, run_dir, recipe, log, step):
        self.run_dir, self.log, self.step = run_dir, log, step
        self.stability, self.train = recipe.stability, recipe.train
        learned = step.has_temperatures and step.network.model.log_scale.requires_grad
        watched = [name for name in step.metric_names if learned and name.startswith('scale_')]
        self.detector = Detector(self.stability, watched, self.train.loss_scale.initial,
                                 recipe.loss.temperature.minimum)
        self.kept = ['step', 'loss', 'grad_norm', 'loss_scale', 'overflow', *watched]
        self.nonfinite = NonFinite(step.network.model.get_parameters())
        self.lowered_until = self.rollbacks = 0
        self.factor = 1.0  # that the optimizer has

    def on_train_begin(self, run_context):
        self._set_rate(run_context.original_args().cur_step_num)

    def on_train_step_end(self, run_context):
        run = run_context.original_args()
        now = run.cur_step_num
        checks = (now == run.total_steps or now % self.stability.check_every == 0
                  or now % self.train.checkpoint_every == 0)
        if checks or now % self.stability.look_every == 0 or self._floor_is_near():
            self._look(run, run_context, checks)
        self._set_rate(now)

    def state(self):
        """What a checkpoint keeps, for JSON; without what a clock decides, so equal runs keep equal checkpoints."""
        waiting = [{name: row[name] for name in self.kept} for row in self.log.unread]
        return {'waiting': waiting, 'lowered_until': self.lowered_until, 'rollbacks': self.rollbacks,
                'detector': self.detector.state()}

    def restore(self, state):
        """Go on from ``state()``."""
        self.log.unread = state['waiting']
        self.lowered_until, self.rollbacks = state['lowered_until'], state['rollbacks']
        self.detector.restore(state['detector'])

    def _floor_is_near(self):
        return self.detector.loss_scale <= FLOOR * self.train.loss_scale.factor ** self.stability.look_every

    def _look(self, run, context, checks):
        self.log.flush(run)
        rows, self.log.unread = self.log.unread, []
        for row in rows:
            for trouble in self.detector.examine(row):
                self._answer(trouble, run, context)
                if trouble.action in ('rollback', 'stop'):  # the rows after it are of weights that are gone
                    return
        if checks:
            self._check_weights(run, context)

    def _check_weights(self, run, context):
        names = self.nonfinite.names()
        if distributed.any_rank(names):
            first = f'the weight {names[0]}' if names else 'a weight of another rank'
            trouble = Trouble('nonfinite_weights', run.cur_step_num, self.stability.nonfinite,
                              {'first': first, 'tensors': len(names)})
            self._answer(trouble, run, context)

    def _answer(self, trouble, run, context):
        if trouble.action == 'ignore':
            return
        details = dict(trouble.details)
        if trouble.kind == 'loss_scale_floor':
            details['first'] = first_nonfinite(self.step, self.nonfinite, run.batch)
        if trouble.action == 'lower_lr':
            self.lowered_until = run.cur_step_num + self.stability.lr_steps
        if trouble.action == 'rollback':
            details.update(self._roll_back())
        self.log.event(trouble.kind, trouble.step, noticed=run.cur_step_num, action=trouble.action, **details)
        told = f'step {trouble.step}: {trouble.kind.replace("_", " ")} ({_plain(details)})'
        if trouble.action == 'stop' or (trouble.action == 'rollback' and 'to' not in details):
            self._fail(told, run, context)
        else:
            tqdm.write(f'note: {told}: {trouble.action}', file=sys.stderr)

    def _fail(self, told, run, context):
        good = self._good_checkpoint()
        run.failure = (f'{self.run_dir}: stopped at {told}; the last good checkpoint is {good or "not there yet"}; '
                       'start another run from it (model.weights) with a lower train.lr or more layers in '
                       'precision.keep_fp32, or look at the data of that step')
        context.request_stop()

    def _roll_back(self):
        """Take the weights of the last good checkpoint; the data goes on. What the log says of it."""
        good = self._good_checkpoint()
        if good is None:
            return {'why': 'no checkpoint to go back to'}
        if self.rollbacks == self.stability.rollbacks:
            return {'why': f'after {self.rollbacks} rollbacks'}
        load_state(good, self.step)
        self.rollbacks += 1
        self.detector.lasting = []
        return {'to': checkpoint_step(good)}

    def _good_checkpoint(self):
        """The newest checkpoint whose weights were seen to train on, or None.

        The first rank tells the others, which may look before it has written one.
        """
        found = next((checkpoint_step(path) for path in reversed(checkpoints(self.run_dir))
                      if checkpoint_step(path) < self.detector.last_good), -1)
        step = int(distributed.everyone(found)[0, 0])
        return None if step < 0 else checkpoint_path(self.run_dir, step)

    def _set_rate(self, now):
        factor = self.stability.lr_factor if now < self.lowered_until else 1.0
        if self.detector.has_low_scale():
            factor *= self.stability.low_scale_lr
        if factor != self.factor:
            ops.assign(self.step.optimizer.lr_factor, Tensor(factor, ms.float32))
            self.factor = factor


def _plain(details):
    """Numbers by name, in few characters."""
    return ', '.join(f'{name} {value:.4g}' if isinstance(value, float) else f'{name} {value}'
                     for name, value in details.items())
