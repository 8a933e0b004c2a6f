"""Measure a training step: ``tools/bench_step.py [RECIPE] [--set KEY=VALUE]``.

The step in one graph and, with ``--images`` or ``--texts`` of micro-batches, the staged one take turns on one random
batch. Shows the median time, the model's floating-point operations per second, what share that is of the rate at which
this machine multiplies large matrices, and where the time goes; with ``--profile`` by operation, too.
"""
import argparse
import statistics
import time
from pathlib import Path

from hcma import cli

DEFAULT = Path(__file__).parents[1] / 'recipes' / 'configs' / 'scenes.yaml'
SIDE = 2048  # of the matrices


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', metavar='RECIPE', nargs='?', default=DEFAULT, help='default: scenes.yaml')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe; may be repeated')
    parser.add_argument('--images', type=cli.positive, metavar='N', help='pictures the staged step encodes at once')
    parser.add_argument('--texts', type=cli.positive, metavar='N', help='texts the staged step encodes at once')
    parser.add_argument('--rounds', type=cli.positive, default=15, metavar='N', help='default: %(default)s')
    parser.add_argument('--profile', action='store_true', help='list what each kind of operation takes')
    arguments = parser.parse_args()

    from hcma import backend
    from hcma.columns import align
    from hcma.plan.flops import step_flops
    from hcma.recipe_io import load_recipe
    recipe = load_recipe(arguments.recipe, [*arguments.overrides, 'train.image_micro_batch=null',
                                            'train.text_micro_batch=null'])
    backend.set_up('graph', recipe.device)
    steps = {'one graph': step_of(recipe)}
    if arguments.images or arguments.texts:
        steps['staged'] = step_of(staged(arguments, recipe))
    rate, times = matmul_rate(), measure(steps, arguments.rounds)
    flops = step_flops(recipe)
    print(f'{sum(flops.values()) / 1e9:.2f} GFLOP a step (' +
          ', '.join(f'{name} {count / 1e9:.2f}' for name, count in flops.items()) +
          f'); products of {SIDE} x {SIDE} matrices run at {rate / 1e9:.0f} GFLOP/s')
    rows = [['step', 'ms', 'images/s', 'GFLOP/s', 'of matmul', 'where the time goes']]
    for name, (step, _) in steps.items():
        seconds = statistics.median(times[name])
        speed = sum(flops.values()) / seconds
        spent = step.clock.seconds
        parts = ', '.join(f'{part} {share / sum(spent.values()):.0%}' for part, share in spent.items())
        rows.append([name, f'{1e3 * seconds:.1f}', f'{recipe.train.batch_size / seconds:.0f}', f'{speed / 1e9:.1f}',
                     f'{speed / rate:.0%}', parts])
    print(align(rows))
    if arguments.profile:
        print(align(profiled(steps['one graph'][1])))


def profiled(take, steps=3):
    """The rows of a table of operations."""
    from hcma.bench.profile import by_operation
    found = by_operation(take, steps)
    total = sum(spent for _, _, spent in found)
    return [['operation', 'calls', 'ms', 'of all operations'],
            *([name, f'{calls:.0f}', f'{spent:.2f}', f'{spent / total:.1%}'] for name, calls, spent in found)]


def staged(arguments, recipe):
    """The recipe with micro-batches; raises ``InputError`` where they are none of its batch."""
    from hcma.recipe_io import parse_recipe
    values = recipe.model_dump()
    values['train'].update(image_micro_batch=arguments.images, text_micro_batch=arguments.texts)
    return parse_recipe(values, '--images, --texts')


def step_of(recipe):
    """The step, and a call that takes it once and waits for it."""
    import mindspore as ms

    from hcma.bench.memory import random_batch
    from hcma.training.trainer import build_step
    step = build_step(recipe, recipe.model.text.vocab_size, 1000)
    batch = [ms.Tensor(column) for column in random_batch(recipe, 0)]
    return step, lambda: step(*batch)[1].asnumpy()


def measure(steps, rounds):
    """Seconds of every step of each kind, which take turns; the first two, which compile and warm up, do not count."""
    times = {name: [] for name in steps}
    for turn in range(rounds + 2):
        for name, (step, take) in steps.items():
            if turn == 2:
                step.clock.seconds.clear()
            start = time.perf_counter()
            take()
            if turn >= 2:
                times[name].append(time.perf_counter() - start)
    return times


def matmul_rate():
    """Operations per second of MindSpore's product of two large float32 matrices, the best of five."""
    import mindspore as ms
    import numpy as np
    matrix = ms.Tensor(np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype(np.float32))
    best = float('inf')
    for _ in range(6):
        start = time.perf_counter()
        ms.ops.matmul(matrix, matrix).asnumpy()
        best = min(best, time.perf_counter() - start)
    return 2 * SIDE ** 3 / best


if __name__ == '__main__':
    cli.run(main)
