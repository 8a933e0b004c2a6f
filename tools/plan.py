"""What a recipe needs, before it is run: ``tools/plan.py RECIPE --device ascend-910b --memory 64``.

Counts parameters, and what a training step holds in memory on each device; says whether it fits, and if not what would
make it fit. It loads no MindSpore. How good its answers are stands in docs/planning.md.
"""
import argparse
import json
from pathlib import Path

from hcma import cli
from hcma.errors import InputError
from hcma.plan.memory import GIB, setting_of
from hcma.plan.table import plan, plan_table
from hcma.recipe_io import load_recipe

# Memory in GiB.
DEVICES = {'ascend-910b': 64, 'cpu': 16}


def main():
    """Print the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', metavar='RECIPE')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe; may be repeated')
    parser.add_argument('--device', choices=DEVICES, default='ascend-910b', help='default: %(default)s')
    parser.add_argument('--memory', type=float, metavar='GIB', help='of one device (default: that of the device)')
    parser.add_argument('--devices', type=cli.positive, default=1, help='that share a batch (default: %(default)s)')
    parser.add_argument('--compute', choices=['recipe', 'fp32', 'fp16', 'bf16'], default='recipe',
                        help="products in the recipe's types over float32 weights, or the type of products, activations"
                        ' and weights (default: %(default)s)')
    parser.add_argument('--no-masters', action='store_true', help='16-bit weights without float32 masters')
    parser.add_argument('--optimizer', choices=['device', 'sharded', 'host'],
                        help="where moments and masters are (default: what the recipe's train.shard_optimizer says)")
    parser.add_argument('--json', metavar='FILE', help='write the plan there as well, in bytes')
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, arguments.overrides)
    _check(recipe, arguments)
    optimizer = {} if arguments.optimizer is None else {'optimizer': arguments.optimizer}
    setting = setting_of(recipe, device=arguments.device, devices=arguments.devices, compute=arguments.compute,
                         masters=not arguments.no_masters, **optimizer)
    result = plan(recipe, setting, (arguments.memory or DEVICES[arguments.device]) * GIB)
    print(plan_table(result))
    if arguments.json:
        try:
            Path(arguments.json).write_text(json.dumps(result, indent=1), encoding='utf-8')
        except OSError as error:
            raise InputError(f'--json {arguments.json}: cannot be written ({error.strerror})') from None


def _check(recipe, arguments):
    if recipe.vqa is not None:
        raise InputError(f'{arguments.recipe}: has a section vqa; plan the alignment run that it begins with')
    if arguments.memory is not None and not 0 < arguments.memory < float('inf'):
        raise InputError(f'--memory {arguments.memory}: give the GiB of one device, a number above 0')
    if recipe.train.batch_size % arguments.devices:
        raise InputError(f'--devices {arguments.devices}: cannot share a batch of {recipe.train.batch_size}; take a '
                         'divisor, or another train.batch_size')
    if arguments.no_masters and arguments.compute in ('recipe', 'fp32'):
        raise InputError('--no-masters: masters are for 16-bit weights; add --compute bf16')
    if arguments.device == 'cpu' and (arguments.compute not in ('recipe', 'fp32') or arguments.devices > 1
                                      or arguments.optimizer not in (None, 'device')):
        raise InputError('--device cpu: one process in fp32 with its optimizer is all that was measured there; '
                         'leave out --compute, --optimizer and --devices')


if __name__ == '__main__':
    cli.run(main)
