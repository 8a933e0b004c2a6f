"""A training run, to be read from top to bottom."""
import time

from mindspore.train.callback import RunContext
from mindspore.train.loss_scale_manager import DynamicLossScaleManager

from hcma import backend
from hcma.data.meta import read_meta, require_training_data
from hcma.data.pack import read_captions
from hcma.data.pipeline import TrainingBatches
from hcma.data.tokenizer import load_tokenizer, train_tokenizer
from hcma.errors import InputError
from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model
from hcma.training.callbacks import Checkpoints, ProgressBar, StepLog, StopOnSignal
from hcma.training.checkpoint import TOKENIZER, checkpoints, load_state
from hcma.training.optimizer import build_optimizer
from hcma.training.run_folder import begin_run, open_run, update_metrics
from hcma.training.step import HCMATrainStep


def train(recipe, run_dir, resume=False, callbacks=()):
    """Train as ``recipe`` says, into the folder ``run_dir``; returns whether the run reached its end.

    With ``resume`` it goes on from the run's newest checkpoint, to the bit as if it had never stopped. Further
    ``callbacks`` of MindSpore's are driven after the run's own. Raises ``InputError`` where recipe, data or folder do
    not allow it.
    """
    # ---- data and tokenizer
    require_training_data(recipe)
    fingerprint = read_meta(recipe.data.train)['fingerprint']
    backend.set_up(recipe.train.mode, recipe.device)
    run_dir = open_run(run_dir, recipe, resume)
    newest = next(reversed(checkpoints(run_dir)), None)
    captions = [caption for captions in read_captions(recipe.data.train) for caption in captions]
    tokenizer = _tokenizer(recipe, newest, captions)
    batches = TrainingBatches(recipe.data.train, recipe, tokenizer)

    # ---- model and step
    step = build_step(recipe, tokenizer.vocab_size, recipe.train.epochs * batches.steps)
    done = 0
    if newest is not None:
        progress = load_state(newest, step)
        done = int(progress['step'])
        if progress['data'] != fingerprint:
            raise InputError(f'{recipe.data.train}: other data than {run_dir} was trained on; resume with the same')
    begin_run(run_dir, recipe, done)

    # ---- what happens beside the training
    log = StepLog(run_dir)
    callbacks = [log, ProgressBar(log, done), Checkpoints(run_dir, recipe, tokenizer, log, fingerprint),
                 StopOnSignal(), *callbacks]
    run, context = _context(recipe, step, batches, done)
    _call(callbacks, 'on_train_begin', context)
    started = time.perf_counter()

    # ---- the loop
    for epoch in range(done // batches.steps, recipe.train.epochs):
        run.cur_epoch_num = epoch + 1
        _call(callbacks, 'on_train_epoch_begin', context)
        for batch in _timed(batches.epoch(epoch, run.cur_step_num - epoch * batches.steps), run):
            _call(callbacks, 'on_train_step_begin', context)
            run.net_outputs = step(*batch)
            run.cur_step_num += 1
            _call(callbacks, 'on_train_step_end', context)
            if context.get_stop_requested():
                break
        if context.get_stop_requested():
            break
        _call(callbacks, 'on_train_epoch_end', context)

    # ---- the end
    _call(callbacks, 'on_train_end', context)
    _record(run_dir, run, done, time.perf_counter() - started, tokenizer, captions)
    return run.cur_step_num == run.batch_num * run.epoch_num


def build_step(recipe, vocab_size, total_steps):
    """The compiled training step of ``recipe`` with a fresh model, optimizer and loss scale."""
    model = build_model(recipe, vocab_size)
    network = HierarchicalLoss(model, [recipe.loss.weight(term) for term in model.terms], recipe.seed)
    optimizer = build_optimizer(network, recipe.train, total_steps)
    scale = recipe.train.loss_scale
    manager = DynamicLossScaleManager(scale.initial, scale.factor, scale.window)
    return HCMATrainStep(network, optimizer, manager, recipe.train.clip_norm).set_train()


def _tokenizer(recipe, checkpoint, captions):
    text = recipe.model.text
    if checkpoint is not None:
        return load_tokenizer(checkpoint / TOKENIZER, text.length)
    if recipe.data.tokenizer is not None:
        return load_tokenizer(recipe.data.tokenizer, text.length)
    return train_tokenizer(captions, text.vocab_size, text.length)


def _context(recipe, step, batches, done):
    """What MindSpore's callbacks read: its own names, and ours for the batch size, the name and the wait for data."""
    run = {'train_network': step, 'network': step.network, 'optimizer': step.optimizer, 'mode': 'train',
           'batch_num': batches.steps, 'epoch_num': recipe.train.epochs, 'cur_step_num': done, 'cur_epoch_num': 1,
           'net_outputs': None, 'batch_size': recipe.train.batch_size, 'name': recipe.name, 'data_wait': 0.0,
           'data_wait_total': 0.0, 'dataset_sink_mode': False}
    context = RunContext(_Attributes(run))
    return context.original_args(), context


class _Attributes(dict):
    """A dict whose keys are attributes too, as MindSpore hands to callbacks."""
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def _timed(batches, run):
    """Pass on ``batches``, noting for how long the loop had to wait for each."""
    batches = iter(batches)
    while True:
        before = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        run.data_wait = time.perf_counter() - before
        run.data_wait_total += run.data_wait
        yield batch


def _call(callbacks, event, context):
    for callback in callbacks:
        getattr(callback, event)(context)


def _record(run_dir, run, done, seconds, tokenizer, captions):
    steps = run.cur_step_num - done
    if not steps:
        return
    size = sum(parameter.size for parameter in run.network.model.get_parameters())
    training = {'images_per_s': round(steps * run.batch_size / seconds, 1), 'seconds': round(seconds, 1),
                'steps': run.cur_step_num, 'parameters': size, 'data_wait': round(run.data_wait_total / seconds, 4),
                'truncated_captions': tokenizer.count_truncated(captions)}
    update_metrics(run_dir, training=training, environment=backend.environment())
