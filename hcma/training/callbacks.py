"""What happens beside the training itself, as MindSpore callbacks: log, progress bar, checkpoints, stopping."""
import json
import math
import os
import signal
import time

from mindspore.train.callback import Callback
from tqdm import tqdm

from hcma import distributed
from hcma.training.checkpoint import checkpoint_path, keep_newest, save_checkpoint
from hcma.training.clock import shares
from hcma.training.run_folder import LOG


class StepLog(Callback):
    """Writes a line of ``log.jsonl`` for every step, speed and shares of time being those of the lines written with it.

    The steps' metrics stay on the device until ``every`` of them wait: reading each at once would make the host and
    the device wait for each other. ``latest`` is the last line written, ``unread`` are those that the stability monitor
    has not taken yet. Only the first rank's lines are kept.
    """

    def __init__(self, run_dir, every=10):
        self.path = run_dir / LOG if distributed.is_first() else os.devnull
        self.every = every
        self.latest = {}
        self.unread = []
        self.waiting = []

    def on_train_begin(self, run_context):
        self.file = open(self.path, 'a', encoding='utf-8', buffering=1)
        self._restart(run_context.original_args())

    def on_train_step_end(self, run_context):
        run = run_context.original_args()
        self.waiting.append((run.cur_step_num, run.cur_epoch_num, run.batch_size, run.net_outputs[1]))
        if len(self.waiting) >= self.every:
            self.flush(run)

    def on_train_end(self, run_context):
        self.flush(run_context.original_args())
        self.file.close()

    def flush(self, run):
        """Write the lines that wait."""
        if not self.waiting:
            return
        names = run.train_network.metric_names
        rows = [row.asnumpy().tolist() for *_, row in self.waiting]
        seconds = time.perf_counter() - self.started
        speed = {'images_per_s': round(sum(size for _, _, size, _ in self.waiting) / seconds, 1),
                 **shares(run.train_network.clock.since(self.before), seconds)}
        for (step, epoch, *_), row in zip(self.waiting, rows):
            self.latest = {'step': step, 'epoch': epoch, **dict(zip(names, row)), **speed}
            self.unread.append(self.latest)
            self._write(self.latest)
        self.waiting.clear()
        self._restart(run)

    def _restart(self, run):
        self.started, self.before = time.perf_counter(), dict(run.train_network.clock.seconds)

    def event(self, kind, step, **details):
        """Write a line for what happened at ``step``, which the report marks in its curves."""
        self._write({'event': kind, 'step': step, **details})

    def _write(self, line):
        self.file.write(json.dumps({key: _strict(value) for key, value in line.items()}) + '\n')


def _strict(value):
    """JSON has no NaN and no infinity: a step that overflowed has null there."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class ProgressBar(Callback):
    """A tqdm bar over all steps, with loss, temperatures, speed and the share of time in which the device computes."""

    def __init__(self, log, start):
        self.log = log
        self.start = start

    def on_train_begin(self, run_context):
        run = run_context.original_args()
        self.bar = tqdm(total=run.total_steps, initial=self.start, desc=run.name, unit='step',
                        mininterval=1.0, dynamic_ncols=True, disable=not distributed.is_first())

    def on_train_step_end(self, run_context):
        latest = self.log.latest
        if latest and latest['step'] == run_context.original_args().cur_step_num:
            scales = '/'.join(f'{value:.1f}' for name, value in latest.items()
                              if name.startswith('scale_'))
            beside = f'1/temperature {scales}' if scales else f'right {latest["accuracy"]:.0%}'
            self.bar.set_postfix_str(f'loss {latest["loss"]:.3f}, {beside}, '
                                     f'{latest["images_per_s"]:.0f} images/s, device {latest["utilisation"]:.0%}',
                                     refresh=False)
        self.bar.update()

    def on_train_end(self, run_context):
        self.bar.close()


class Checkpoints(Callback):
    """A checkpoint every ``train.checkpoint_every`` steps, and one where the run ends."""

    def __init__(self, run_dir, task, log, monitor):
        self.run_dir, self.task, self.log, self.monitor = run_dir, task, log, monitor
        self.train = task.recipe.train

    def on_train_begin(self, run_context):
        self.saved = run_context.original_args().cur_step_num  # a run goes on from a checkpoint

    def on_train_step_end(self, run_context):
        run = run_context.original_args()
        if run.cur_step_num % self.train.checkpoint_every == 0:
            self.save(run)

    def on_train_end(self, run_context):
        self.save(run_context.original_args())

    def save(self, run):
        """Write the checkpoint of this step, if it is not there, then drop old ones; none of a run that failed."""
        if self.saved == run.cur_step_num or run.failure is not None:
            return
        self.log.flush(run)  # the log never lags behind a checkpoint
        self.saved = run.cur_step_num
        progress = {'step': str(run.cur_step_num), 'data': self.task.fingerprint, 'monitor': self.monitor.state()}
        save_checkpoint(checkpoint_path(self.run_dir, run.cur_step_num), run.train_network, self.task.recipe,
                        self.task.tokenizer, progress, self.task.files)
        if distributed.is_first():
            keep_newest(self.run_dir, self.train.keep_checkpoints)


class StopOnSignal(Callback):
    """Ctrl-C or SIGTERM ends the run after the current step, with a checkpoint."""

    def on_train_begin(self, run_context):
        def stop(number, frame):
            run_context.request_stop()
        self.before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_train_end(self, run_context):
        for number, handler in self.before.items():
            signal.signal(number, handler)
