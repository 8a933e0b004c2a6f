"""A training run, to be read from top to bottom."""
import sys
import time

import mindspore as ms
from mindspore.train.callback import RunContext
from mindspore.train.loss_scale_manager import DynamicLossScaleManager

from hcma import backend, distributed
from hcma.errors import Diverged, InputError
from hcma.training.alignment import alignment_network
from hcma.training.callbacks import Checkpoints, ProgressBar, StepLog, StopOnSignal
from hcma.training.checkpoint import checkpoints, load_state
from hcma.training.clock import DATA, shares
from hcma.training.graph_cache import KeptGraphs
from hcma.training.monitor import StabilityMonitor
from hcma.training.optimizer import build_optimizer
from hcma.training.precision import compute_types, is_mixed, set_precision
from hcma.training.run_folder import begin_run, open_run, update_metrics
from hcma.training.scheduler import scheduler_of
from hcma.training.split import SplitTrainStep
from hcma.training.staged import StagedTrainStep
from hcma.training.step import HCMATrainStep
from hcma.training.tasks import task_of


def train(recipe, run_dir, resume=False, callbacks=()):
    """Train as ``recipe`` says, into the folder ``run_dir``; returns whether the run reached its end.

    With ``resume`` it goes on from the run's newest checkpoint, to the bit as if it had never stopped. Further
    ``callbacks`` of MindSpore's are driven after the run's own. Raises ``InputError`` where recipe, data or folder do
    not allow it, and ``Diverged`` where it trains no further. Every rank of a launch calls it with the same arguments;
    the first one writes.
    """
    # ---- data and tokenizer
    task = task_of(recipe)
    recipe = task.recipe
    backend.set_up(recipe.train.mode, recipe.device)
    compute_types(recipe.precision)  # what the device cannot do is refused before data is read
    distributed.start()
    _require_shared(task)
    run_dir = open_run(run_dir, recipe, resume)
    newest = next(reversed(checkpoints(run_dir)), None)
    task.load(newest)
    distributed.require_same(recipe=recipe, checkpoint=newest and newest.name, data=task.fingerprint,
                             tokenizer=task.tokenizer.to_json())
    batches = task.batches

    # ---- model and step
    total = sum(batches.steps(epoch) for epoch in range(recipe.train.epochs))
    step = step_of(task.network(), recipe, total)
    log = StepLog(run_dir, recipe.stability.look_every)
    monitor = StabilityMonitor(run_dir, recipe, log, step)
    done = 0
    if newest is not None:
        progress = load_state(newest, step)
        done = int(progress['step'])
        if progress['data'] != task.fingerprint:
            raise InputError(f'{recipe.data.train}: other data than {run_dir} was trained on; resume with the same')
        if 'monitor' in progress:  # a run from before there was one has none
            monitor.restore(progress['monitor'])
    if distributed.is_first():
        begin_run(run_dir, recipe, done)
        _advise(recipe)

    # ---- what happens beside the training
    scheduler = scheduler_of(recipe)
    callbacks = [*([KeptGraphs(recipe)] if recipe.train.compile_cache else []), log, ProgressBar(log, done), monitor,
                 Checkpoints(run_dir, task, log, monitor), StopOnSignal(), *scheduler, *callbacks]
    run, context = _context(recipe, step, total, done)
    first, start = _position(batches, done)
    run.batch_size = batches.size(first)
    _call(callbacks, 'on_train_begin', context)
    started, computed, stopped = time.perf_counter(), time.process_time(), False

    # ---- the loop
    for epoch in range(first, recipe.train.epochs):
        run.cur_epoch_num, run.batch_num, run.batch_size = epoch + 1, batches.steps(epoch), batches.size(epoch)
        _call(callbacks, 'on_train_epoch_begin', context)
        for batch in _timed(batches.epoch(epoch, start if epoch == first else 0), step.clock):
            _call(callbacks, 'on_train_step_begin', context)
            run.batch = task.inputs(batch, step.clock)
            run.net_outputs = step(*run.batch)
            run.cur_step_num += 1
            run.samples += run.batch_size
            _call(callbacks, 'on_train_step_end', context)
            stopped = _stopped(run, context, recipe.stability.look_every)
            if stopped:
                break
        if stopped:
            break
        _call(callbacks, 'on_train_epoch_end', context)

    # ---- the end
    _call(callbacks, 'on_train_end', context)
    computed = float(distributed.everyone(time.process_time() - computed).sum())
    if distributed.is_first():
        _record(run_dir, run, time.perf_counter() - started, computed, task)
        for one in scheduler:
            update_metrics(run_dir, schedule=one.history)
    if run.failure is not None:
        raise Diverged(run.failure)
    return run.cur_step_num == total


def _require_shared(task):
    """Refuse what cannot be trained by many ranks."""
    if distributed.ranks() > 1 and task.name != 'alignment':
        raise InputError(f'{task.name}: is trained by one process only; start it without msrun')


def _stopped(run, context, every):
    """Whether all ranks stop after this step.

    One that was asked to asks the others, but only where the host waits for the device anyway, after multiples of
    ``every`` steps. A failure all of them see.
    """
    if distributed.ranks() == 1 or run.failure is not None:
        return context.get_stop_requested()
    return run.cur_step_num % every == 0 and distributed.any_rank(context.get_stop_requested())


def _advise(recipe):
    """Say once what the recipe asks for in vain, and in which types it computes where that is not plain."""
    if any(name != 'fp32' for name in recipe.precision.types().values()):
        types = compute_types(recipe.precision)
        told = ', '.join(f'{part} {str(compute).lower()}' for part, compute in types.items())
        in_vain = not backend.short_types_pay() and any(compute != ms.float32 for compute in types.values())
        print(f'note: computing in {told}' + ('; on CPU 16 bits are slower, and save no memory' if in_vain else ''),
              file=sys.stderr)
    towers = {'image': recipe.model.image, 'text': recipe.model.text}
    if any(tower.recompute != 'off' for tower in towers.values()) and not backend.recompute_saves_memory():
        print('note: recompute saves no memory on CPU; smaller batches and micro-batches do', file=sys.stderr)
    for name, tower in towers.items():
        if tower.train != 'all' and recipe.model.weights is None and recipe.vqa is None:
            print(f'note: model.{name}.train is {tower.train}, and the weights that it keeps are random; '
                  'model.weights=RUN starts from trained ones', file=sys.stderr)


def build_step(recipe, vocab_size, total_steps):
    """The compiled training step of an alignment ``recipe`` with a fresh model, optimizer and loss scale."""
    return step_of(alignment_network(recipe, vocab_size), recipe, total_steps)


def step_of(network, recipe, total_steps):
    """The training step of ``network``, in one graph, in two or in stages, in the types of ``recipe.precision``."""
    train = recipe.train
    set_precision(network, recipe.precision)
    peak = train.lr * (recipe.precision.lr_scale if is_mixed(recipe.precision) else 1)
    optimizer = build_optimizer(network, train, total_steps, peak)
    manager = DynamicLossScaleManager(train.loss_scale.initial, train.loss_scale.factor, train.loss_scale.window)
    if not train.is_staged:
        kind = SplitTrainStep if optimizer.owners else HCMATrainStep
        return kind(network, optimizer, manager, train.clip_norm).set_train()
    return StagedTrainStep(network, optimizer, manager, train.clip_norm, train.image_micro_batch,
                           train.text_micro_batch).set_train()


def _position(batches, done):
    """The epoch of the next step after ``done`` steps, and how many steps of it are done."""
    epoch = 0
    while done and done >= batches.steps(epoch):
        done -= batches.steps(epoch)
        epoch += 1
    return epoch, done


def _context(recipe, step, total, done):
    """What MindSpore's callbacks read: its own names, and ours: sizes, name, the batch, why it failed."""
    run = {'train_network': step, 'network': step.network, 'optimizer': step.optimizer, 'mode': 'train',
           'epoch_num': recipe.train.epochs, 'cur_step_num': done, 'cur_epoch_num': 1, 'net_outputs': None,
           'dataset_sink_mode': False, 'name': recipe.name, 'total_steps': total, 'samples': 0,
           'batch': None, 'failure': None}
    context = RunContext(_Attributes(run))
    return context.original_args(), context


class _Attributes(dict):
    """A dict whose keys are attributes too, as MindSpore hands to callbacks."""
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def _timed(batches, clock):
    """Pass on ``batches``, noting for how long the loop had to wait for them."""
    batches = iter(batches)
    while True:
        with clock.part(DATA):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _call(callbacks, event, context):
    for callback in callbacks:
        getattr(callback, event)(context)


def _record(run_dir, run, seconds, cpu_seconds, task):
    if not run.samples:
        return
    size = sum(parameter.size for parameter in run.network.model.get_parameters())
    training = {'task': task.name, 'seconds': round(seconds, 1),
                'images_per_s': round(run.samples / seconds, 1),
                'images_per_cpu_s': round(run.samples / cpu_seconds, 1), 'steps': run.cur_step_num,
                'parameters': size, **shares(run.train_network.clock.seconds, seconds),
                f'truncated_{task.text_name}': task.tokenizer.count_truncated(task.texts), **task.summary()}
    update_metrics(run_dir, training=training, environment={**backend.environment(), 'ranks': distributed.ranks()})
