"""How a recipe scales to many Ascend devices, on paper: ``tools/bench_scaling.py RECIPE [--tflops T]``.

Prints, for 8 to 1,024 devices and global batches to 32,768, the bytes that a device exchanges in a step and the share
of the time in which it computes. Nothing is run and MindSpore is not loaded: the operations are counted, and the speeds
are those given. The formulae and what the defaults stand on are in docs/distributed.md.
"""
import argparse

from hcma import cli
from hcma.columns import align
from hcma.errors import InputError
from hcma.plan.scaling import Machine, step_seconds, volumes
from hcma.recipe_io import load_recipe

DEVICES, BATCHES = (8, 16, 64, 256, 1024), (2048, 8192, 32768)


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', metavar='RECIPE')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe; may be repeated')
    for name, default, meaning in (('tflops', 100.0, 'operations that a device reaches, 10^12 a second'),
                                   ('inside', 100.0, 'GB a second between the devices of a server'),
                                   ('between', 20.0, 'GB a second for a device between servers'),
                                   ('latency', 10.0, 'microseconds that a round takes beside its bytes')):
        parser.add_argument(f'--{name}', type=float, default=default, help=f'{meaning} (default: %(default)s)')
    arguments = parser.parse_args()
    if min(arguments.tflops, arguments.inside, arguments.between) <= 0 or arguments.latency < 0:
        raise InputError('--tflops, --inside, --between, --latency: give numbers above 0')
    recipe = load_recipe(arguments.recipe, arguments.overrides)
    machine = Machine(1e12 * arguments.tflops, 1e9 * arguments.inside, 1e9 * arguments.between,
                      1e-6 * arguments.latency)
    print(tables(recipe, machine))


def tables(recipe, machine):
    """Bytes at the largest batch, and shares of time, as text."""
    sized = {batch: recipe.model_copy(update={'train': recipe.train.model_copy(update={'batch_size': batch})})
             for batch in BATCHES}
    by_name = [volumes(sized[BATCHES[-1]], devices) for devices in DEVICES]
    sent = [['devices', *(name for name, _, _ in by_name[0])]]
    for devices, row in zip(DEVICES, by_name):
        sent.append([str(devices), *(f'{bytes_ / 1e6:,.1f}' for _, bytes_, _ in row)])
    shares = [['devices', *(f'batch {batch:,}' for batch in BATCHES)]]
    for devices in DEVICES:
        times = [step_seconds(sized[batch], devices, machine) for batch in BATCHES]
        shares.append([str(devices), *(f'{sum(one) * 1e3:,.1f} ms, {one[0] / sum(one):.0%}' for one in times)])
    return (f'MB that a device exchanges in a step, batch {BATCHES[-1]:,}\n{align(sent)}\n\n'
            f'a step, and the share of it in which a device computes\n{align(shares)}\n\n'
            'on paper: counted operations at the given speeds, nothing at the same time')


if __name__ == '__main__':
    cli.run(main)
