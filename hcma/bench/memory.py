"""The peak memory of a training step on CPU, each measured in a process of its own.

``python -m hcma.bench.memory`` reads a recipe as YAML from stdin, null for a trivial graph, and prints bytes.
"""
import subprocess
import sys

import numpy as np
import yaml

from hcma import cli
from hcma.bench.stopwatch import peak_bytes
from hcma.recipe_io import parse_recipe

STEPS = 3


def peak(values=None):
    """The most bytes that a process ever held which trained the recipe ``values`` (a dict), or ran a trivial graph."""
    # The caller should not have loaded MindSpore: a child's peak begins with what its parent held.
    done = subprocess.run([sys.executable, '-m', 'hcma.bench.memory'], input=yaml.safe_dump(values),
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return int(done.stdout.split()[-1])


def _main():
    cli.prepare_process()
    values = yaml.safe_load(sys.stdin.read())
    import mindspore as ms

    from hcma import backend
    from hcma.training import trainer
    backend.set_up('graph')
    ms.jit(_trivial)(ms.Tensor(np.ones(4, np.float32))).asnumpy()
    if values is not None:
        recipe = parse_recipe(values, 'stdin')
        step = trainer.build_step(recipe, recipe.model.text.vocab_size, 10)
        for seed in range(STEPS):
            step(*map(ms.Tensor, random_batch(recipe, seed)))[1].asnumpy()
    print(peak_bytes())


def _trivial(x):
    return x + 1


def random_batch(recipe, seed):
    """Arrays of random pictures, captions, lengths and groups, as a training batch of ``recipe`` has them."""
    rng, size = np.random.default_rng(seed), recipe.train.batch_size
    image, text = recipe.model.image, recipe.model.text
    columns = {'image': rng.integers(0, 256, (size, *image.pixels, 3), dtype=np.uint8),
               'kept': np.stack([rng.permutation(image.patches)[:recipe.kept_patches]
                                 for _ in range(size)]).astype(np.int32),
               'boxes': np.sort(rng.uniform(0, min(image.grid), (size, recipe.model.max_boxes, 2, 2)),
                                2).reshape(size, -1, 4).astype(np.float32),
               'group': np.stack([np.arange(size), size + np.arange(size)], 1)}
    for kind in ('', 'negative_'):
        columns[f'{kind}ids'] = rng.integers(0, text.vocab_size, (size, text.length)).astype(np.int32)
        columns[f'{kind}length'] = rng.integers(3, text.length + 1, size).astype(np.int32)
        columns[f'{kind}spans'] = np.tile(np.int32([1, 2]), (size, recipe.model.max_chunks, 1))
    return [columns[name] for name in recipe.columns]


if __name__ == '__main__':
    _main()
