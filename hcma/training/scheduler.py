"""The asynchronous modal scheduler: how many pictures and texts a staged step encodes at once."""
import statistics
import sys
import time

from mindspore.train.callback import Callback
from tqdm import tqdm

from hcma import backend, distributed
from hcma.errors import InputError
from hcma.plan.memory import GIB, needs, setting_of, usable
from hcma.training.clock import shares
from hcma.training.staged import StagedTrainStep

FIRST_PARTS = 8  # into which a search cuts the batch at first
MEASURED = 3  # steps, after one that compiles
GAIN = 1.03  # that more rows at once must bring to be kept


class AsyncModalScheduler(Callback):
    """Gives each encoder of a ``StagedTrainStep`` micro-batches of its own size.

    ``plan`` 'fixed' cuts an encoder's share of the batch into ``image_batch_scale`` and ``text_batch_scale``
    micro-batches. 'auto' starts there (where the scales are None, with eighths of the batch), and doubles the rows of
    one encoder after the other as long as that makes it faster and the peak stays below ``memory_budget`` GiB. The
    peak is that of the device, on CPU that of the process. With many ranks the batch is a rank's part of it, and all
    ranks take the same sizes. Every step of the search trains on a batch like any other,
    and a size is compiled once. What was tried, why it ended, and where the time went is kept in ``history``.

    Works with our trainer and with ``mindspore.train.Model(step).train(..., dataset_sink_mode=False)``. Raises
    ``InputError`` where the step is not staged or the batch cannot be cut that often.
    """

    def __init__(self, image_batch_scale=None, text_batch_scale=None, plan='fixed', memory_budget=None):
        self.scales = {'image': image_batch_scale, 'text': text_batch_scale}
        self.plan = plan
        self.budget = None if memory_budget is None else memory_budget * GIB
        self.history = []

    def on_train_begin(self, run_context):
        run = run_context.original_args()
        self.step = run.train_network
        if not isinstance(self.step, StagedTrainStep):
            raise InputError('AsyncModalScheduler: schedules a StagedTrainStep only; set train.image_micro_batch or '
                             'train.text_micro_batch')
        if run.dataset_sink_mode:
            raise InputError('AsyncModalScheduler: needs every batch on the host; pass dataset_sink_mode=False')
        self.towers = {'image': self.step.image, 'text': self.step.text}
        self.step.encode_at_once(*(self._first_size(name, _batch_size(run)) for name in self.towers))
        self.search = self._search() if self.plan == 'auto' else iter(())
        next(self.search, None)
        self.started, self.before = time.perf_counter(), dict(self.step.clock.seconds)

    def on_train_step_end(self, run_context):
        next(self.search, None)  # what follows a yield in the search happens here

    def on_train_end(self, run_context):
        times = shares(self.step.clock.since(self.before), time.perf_counter() - self.started)
        self.history.append(times)
        tqdm.write(f'scheduler: the device computed {times["utilisation"]:.0%} of the time', file=sys.stderr)

    def _first_size(self, name, batch):
        scale = self.scales[name]
        if scale is not None and not 1 <= scale <= batch:
            raise InputError(f'AsyncModalScheduler: {name}_batch_scale is {scale}, but a batch of {batch} can be cut '
                             f'into 1 to {batch} micro-batches')
        return -(-batch // (scale or (min(FIRST_PARTS, batch) if self.plan == 'auto' else 1)))

    def _search(self):
        """Every yield is one training step."""
        self.step.clock.waits = True
        start = self.peak = float(distributed.everyone(backend.peak_memory()).max())
        rates = yield from self._rates()
        first = self.peak - start
        for name, tower in self.towers.items():
            grown = first  # twice the rows of one encoder cannot take more than both took again
            while tower.at_once < tower.rows:
                if self.budget is not None and self.peak + grown > self.budget:
                    self._say(name, f'more would take {(self.peak + grown) / GIB:.2f} GiB')
                    break
                before, peak, tower.size = tower.at_once, self.peak, 2 * tower.at_once
                faster = yield from self._rates()
                grown = 2 * (self.peak - peak)
                if faster[name] < GAIN * rates[name]:
                    self._say(name, f'{tower.at_once} at once {_faster(faster[name] / rates[name])}', before)
                    tower.size = before
                    break
                rates = faster
            else:
                self._say(name, 'that is all')
        self.step.clock.waits = False

    def _rates(self):
        """The rows per second of each encoder in the steps to come, and the peak after them."""
        yield
        seconds = {name: [] for name in self.towers}
        for _ in range(MEASURED):
            before = dict(self.step.clock.seconds)
            yield
            spent = self.step.clock.since(before)
            for name in seconds:
                seconds[name].append(spent[f'{name}s'])
        # the slowest and the fullest rank count, so that all ranks choose alike
        *slowest, peak = distributed.everyone(*map(statistics.median, seconds.values()),
                                              backend.peak_memory()).max(0).tolist()
        self.peak = max(self.peak, peak)
        rates = {name: tower.rows / spent for (name, tower), spent in zip(self.towers.items(), slowest)}
        self.history.append({**{name: tower.at_once for name, tower in self.towers.items()},
                             **{f'{name}s_per_s': round(rate, 1) for name, rate in rates.items()},
                             'peak_gib': round(self.peak / GIB, 3)})
        return rates

    def _say(self, name, why, size=None):
        size = size or self.towers[name].at_once
        text = f'scheduler: {size} {name}s at once of {self.towers[name].rows}: {why}'
        self.history.append({'why': text})
        tqdm.write(text, file=sys.stderr)


def scheduler_of(recipe):
    """The scheduler of a run, in a list, if its plan is auto; it begins with what should fit the budget.

    Raises ``InputError`` where not even single samples should.
    """
    train = recipe.train
    if train.plan != 'auto':
        return []
    batch = train.batch_size // distributed.ranks()
    for parts in _scales(batch):
        micro = {name: min(batch, getattr(train, f'{name}_micro_batch') or -(-batch // parts))
                 for name in ('image', 'text')}
        setting = setting_of(recipe, device='cpu' if recipe.device == 'CPU' else 'ascend-910b',
                             devices=distributed.ranks(),
                             **{f'{name}_micro_batch': size for name, size in micro.items()})
        total = needs(recipe, setting)
        if train.memory_budget is None or total.fits(usable(setting, train.memory_budget * GIB)):
            return [AsyncModalScheduler(*(-(-batch // size) for size in micro.values()), 'auto',
                                        train.memory_budget)]
    raise InputError(f'train.memory_budget: {train.memory_budget} GiB is too small even for one sample at a time; '
                     f'about {total.total / GIB:.1f} GiB are needed besides what is kept back, see tools/plan.py')


def _scales(batch):
    """Into how many parts a search cuts a batch at first: an eighth, or less where memory asks for it."""
    parts = min(FIRST_PARTS, batch)
    while parts < batch:
        yield parts
        parts *= 2
    yield batch


def _faster(ratio):
    return f'are {ratio - 1:.0%} faster' if ratio >= 1 else f'are {1 - ratio:.0%} slower'


def _batch_size(run):
    """Of one rank: ours says it for all; a ``Model`` has the data set."""
    return run['batch_size'] // distributed.ranks() if 'batch_size' in run else run.train_dataset.get_batch_size()
