"""Two ways to train the same steps: a naive loop, and the scheduled one; each measured in a process of its own.

``python -m hcma.bench.scheduling KIND STEPS IMAGE_SCALE TEXT_SCALE`` reads a recipe as YAML from stdin and prints JSON.
"""
import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import yaml

from hcma import cli

WARM_UP = 2  # steps that compile


def _main():
    cli.prepare_process()
    kind, steps, scales = sys.argv[1], int(sys.argv[2]), [int(scale) for scale in sys.argv[3:]]
    from hcma import backend
    from hcma.recipe_io import parse_recipe
    recipe = parse_recipe(yaml.safe_load(sys.stdin.read()), 'stdin')
    backend.set_up('graph', recipe.device)
    print(json.dumps(measure(kind, recipe, steps, scales)))


def measure(kind, recipe, steps, scales):
    """Speed, peak and shares of time of ``kind`` 'naive' or 'scheduled' over ``steps`` steps that do not compile."""
    from hcma import backend
    from hcma.data.pack import read_captions
    from hcma.data.pipeline import TrainingBatches
    from hcma.data.tokenizer import train_tokenizer
    from hcma.training.clock import DATA, shares
    from hcma.training.trainer import build_step
    captions = [text for texts in read_captions(recipe.data.train) for text in texts]
    tokenizer = train_tokenizer(captions, recipe.model.text.vocab_size, recipe.model.text.length)
    batches = TrainingBatches(recipe.data.train, recipe, tokenizer)
    if kind == 'scheduled':
        recipe = _staged(recipe)
    step = build_step(recipe, tokenizer.vocab_size, steps + WARM_UP)
    if kind == 'scheduled':
        _schedule(step, recipe, scales)
    feed, losses = iter({'naive': naive, 'scheduled': prefetched}[kind](batches)), []
    for number in range(steps + WARM_UP):
        if number == WARM_UP:
            step.clock.seconds.clear()
            started = time.perf_counter()
        with step.clock.part(DATA):
            batch = next(feed)
        losses.append(step(*batch)[0])
        if kind == 'naive':
            losses[-1].asnumpy()  # a print of every loss, as naive loops have it
    losses = [float(loss.asnumpy()) for loss in losses]
    seconds = time.perf_counter() - started
    return {'images_per_s': steps * recipe.train.batch_size / seconds, 'peak': backend.peak_memory(), 'losses': losses,
            **shares(step.clock.seconds, seconds)}


def naive(batches):
    """Batches made by the loop itself, sample after sample, when it asks for them."""
    import mindspore as ms

    from hcma.data.pipeline import Sample
    from hcma.data.shards import read_rows
    epoch = 0
    while True:
        sample, order = Sample(batches, epoch), batches.order(epoch)
        for rows in order.reshape(batches.steps(epoch), -1):
            made = [sample(record['image'], *(np.array(record[name]) for name in batches.read[1:]))
                    for record in read_rows(batches.paths, [int(row) for row in rows], batches.rows)]
            yield [ms.Tensor(np.stack(column)) for column in zip(*made)]
        epoch += 1


def prefetched(batches):
    """The same batches, made ahead by MindSpore's C++ pipeline."""
    epoch = 0
    while True:
        yield from batches.epoch(epoch)
        epoch += 1


def _staged(recipe):
    train = recipe.train.model_copy(update={'image_micro_batch': recipe.train.batch_size})
    return recipe.model_copy(update={'train': train})


def _schedule(step, recipe, scales):
    """What the trainer or a ``Model`` does with the callback when training begins."""
    from hcma.training.scheduler import AsyncModalScheduler
    run = type('Run', (dict,), {'__getattr__': dict.__getitem__})
    arguments = run(train_network=step, dataset_sink_mode=False, batch_size=recipe.train.batch_size)
    AsyncModalScheduler(*scales).on_train_begin(SimpleNamespace(original_args=lambda: arguments))


if __name__ == '__main__':
    _main()
