"""What one quantity costs as it grows: the time of a training step, or of the start on a data set.

``python -m hcma.bench.scaling AXIS VALUE`` measures in a process of its own and prints JSON.
"""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hcma import cli
from hcma.recipe_io import parse_recipe

AXES = {'batch': (16, 32, 64, 128, 256), 'depth': (1, 2, 4, 8), 'words': (16, 32, 64, 128, 256),
        'patches': (16, 64, 256, 1024), 'pixels': (64, 128, 256, 512), 'pairs': (10 ** 4, 10 ** 5, 10 ** 6, 10 ** 7)}
SHARD = 20_000  # pairs


def recipe_of(batch=32, depth=2, words=24, patches=64, pixels=64):
    """The preset small with its pictures cut into ``patches`` of a side of ``pixels``."""
    patch = pixels // round(patches ** 0.5)
    image = {'size': pixels, 'stem': 'patchify', 'patch_size': patch, 'depth': depth, 'directions': False}
    return parse_recipe({'model': {'image': image, 'text': {'length': words, 'depth': depth}},
                         'train': {'epochs': 1, 'batch_size': batch}}, 'scaling')


def run(axis, value):
    """{'wall', 'cpu', 'memory'} of a fresh process: seconds, and bytes beyond what it began with."""
    done = subprocess.run([sys.executable, '-m', 'hcma.bench.scaling', axis, str(value)], capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(f'{axis} {value}: {done.stderr}')
    return json.loads(done.stdout.splitlines()[-1])


def counted(axis, value):
    """What the quantity costs by its mathematics: operations of a step, or the pairs themselves."""
    from hcma.plan.flops import step_flops
    return value if axis == 'pairs' else sum(step_flops(recipe_of(**{axis: value})).values())


def slope(values, costs):
    """The power of ``values`` that ``costs`` grow with, over the three largest, where fixed costs count least."""
    return float(np.polyfit(np.log(values[-3:]), np.log(costs[-3:]), 1)[0])


def step(recipe):
    """The time of a step on a random batch."""
    import mindspore as ms

    from hcma import backend
    from hcma.bench.memory import random_batch
    from hcma.bench.stopwatch import measure, peak_bytes
    from hcma.training.trainer import build_step
    backend.set_up('graph')
    before = peak_bytes()
    train = build_step(recipe, recipe.model.text.vocab_size, 10 ** 6)
    batch = [ms.Tensor(column) for column in random_batch(recipe, 0)]
    return {**measure(lambda: train(*batch)[1].asnumpy(), seconds=2.0), 'memory': peak_bytes() - before}


def start(pairs):
    """The first order of so many pairs and what MindSpore is told of it; of the pack there is the index alone."""
    import mindspore.dataset as ds

    from hcma.bench.stopwatch import peak_bytes, processor_seconds
    from hcma.data.meta import FORMAT, META
    from hcma.data.pipeline import AT_ONCE, TrainingBatches
    from hcma.data.shards import row_places, shard_names
    from hcma.data.tokenizer import train_tokenizer
    names, recipe = shard_names(-(-pairs // SHARD)), recipe_of()
    tokenizer = train_tokenizer(['a caption'], 300, recipe.model.text.length)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, META).write_text(json.dumps({'format': FORMAT, 'images': pairs, 'shards': names}))
        for name in names:
            Path(folder, name).touch()
            Path(folder, f'{name}.db').touch()
        before, wall, cpu = peak_bytes(), time.perf_counter(), processor_seconds()
        batches = TrainingBatches(folder, recipe, tokenizer)
        places = row_places(batches.order(0)[:AT_ONCE], len(batches.paths), batches.rows)
        ds.SubsetSampler(places)
    return {'wall': time.perf_counter() - wall, 'cpu': processor_seconds() - cpu, 'memory': peak_bytes() - before}


if __name__ == '__main__':
    cli.prepare_process()
    axis, value = sys.argv[1], int(sys.argv[2])
    print(json.dumps(start(value) if axis == 'pairs' else step(recipe_of(**{axis: value}))))
