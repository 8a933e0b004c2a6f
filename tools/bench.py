"""Compare with PyTorch on this machine: ``tools/bench.py [--peer torch|transformers|open_clip] [--preset NAME]``.

Both sides compute the same function of the same weights on the same batch, with as many threads, and take turns, each
measurement in a process of its own. Shows medians, ours / peer with its spread over the rounds, and the goal; ends with
1 where the losses of both differ. Needs the extra ``bench`` (pip install .[bench]).
"""
import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from hcma import cli
from hcma.bench.peer import process, rows, workplace
from hcma.bench.scenes import draw_photographs
from hcma.recipe_io import dump_recipe, load_recipe

BATCHES = {'small': 32, 'vit_b32': 8, 'vit_b16': 4}
CLIP_ONLY = ('transformers', 'open_clip')


def main():
    """Measure, print the table, and write all numbers."""
    arguments = parse_arguments()
    wanted = [row for group in arguments.rows or rows.GROUPS for row in rows.rows_of(arguments.preset, group)]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_recipe(folder, arguments)
        pairs = arguments.pairs or draw_photographs(folder / 'scenes')
        process.run(folder, 'ours', ('prepare', os.path.abspath(pairs)), arguments.threads)
        if 'cached' in (arguments.rows or rows.GROUPS):
            process.run(folder, 'ours', rows.CACHED, arguments.threads)  # compiles what the rounds will find
        rounds = [one_round(folder, wanted, number, arguments) for number in range(arguments.rounds)]
    compared = [(row, rows.compare(row, rounds, arguments.clock)) for row in wanted if rows.is_measured(row, rounds)]
    print(rows.table(compared))
    differences = [pair for one in rounds for pair in rows.differences(one)]
    for what, difference in sorted(set(differences)):
        print(f'same function: {what} differs by {difference:.1e}')
    if arguments.json:
        write(arguments, rounds, compared)
    return int(any(difference > rows.TOLERANCE for _, difference in differences))


def parse_arguments():
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--peer', choices=('torch', *CLIP_ONLY), default='torch', help='default: %(default)s')
    parser.add_argument('--preset', choices=BATCHES, default='small', help='default: %(default)s')
    parser.add_argument('--rows', nargs='+', choices=rows.GROUPS, metavar='ROWS',
                        help=f'what to compare, of {", ".join(rows.GROUPS)} (default: all)')
    parser.add_argument('--pairs', metavar='PAIRS', help='photographs with captions, as tools/prepare.py reads them '
                        '(default: generated pictures of their size)')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe, such as train.batch_size=16; may be repeated')
    parser.add_argument('--rounds', type=cli.positive, default=5, metavar='N', help='default: %(default)s')
    parser.add_argument('--threads', type=cli.positive, default=len(os.sched_getaffinity(0)), metavar='N',
                        help='default: the cores this process may use, %(default)s')
    parser.add_argument('--clock', choices=('wall', 'cpu'), default='wall',
                        help='cpu: processor seconds, for a machine with other work on it (default: %(default)s)')
    parser.add_argument('--json', metavar='FILE', help='write all numbers there')
    arguments = parser.parse_args()
    if arguments.peer in CLIP_ONLY and arguments.preset == 'small':
        parser.error(f'{arguments.peer} has no model like small; compare vit_b32 or vit_b16')
    return arguments


def write_recipe(folder, arguments):
    """The recipe that both sides train, without what makes steps differ: no warm-up, one learning rate."""
    levels = ['sentence_global', 'word_patch'] if arguments.preset == 'small' else ['sentence_global']
    values = {'model': {'preset': arguments.preset}, 'loss': {'levels': levels},
              'train': {'epochs': 1, 'batch_size': BATCHES[arguments.preset], 'lr': 1e-4, 'warmup': 0.0,
                        'final_lr': 1.0}}
    path = folder / workplace.RECIPE
    path.write_text(json.dumps(values), encoding='utf-8')
    path.write_text(dump_recipe(load_recipe(path, arguments.overrides)), encoding='utf-8')


def one_round(folder, wanted, number, arguments):
    """{(side, job): result} of every job that the rows need, the sides in turn."""
    jobs = dict.fromkeys(pair for row in wanted for pair in (('ours', row.ours), ('peer', row.peer)))
    results = {}
    for side, job in jobs:
        print(f'round {number + 1} of {arguments.rounds}: {side}, {" ".join(map(str, job))}', file=sys.stderr, end=' ')
        name = 'ours' if side == 'ours' else arguments.peer
        try:
            results[side, job] = result = process.run(folder, name, job, arguments.threads)
            print({key: rows.value(result, key, arguments.clock) for key in result if key != 'same'}, file=sys.stderr)
        except RuntimeError as error:  # the other rows are still worth having
            print(f'failed: {error}', file=sys.stderr)
    return results


def write(arguments, rounds, compared):
    """Everything as JSON."""
    numbers = [{f'{side} {" ".join(map(str, job))}': result for (side, job), result in one.items()} for one in rounds]
    made = {'arguments': vars(arguments), 'machine': platform.platform(),
            'table': [{'row': row.label, 'goal': row.goal, **one} for row, one in compared], 'rounds': numbers}
    Path(arguments.json).write_text(json.dumps(made, indent=1), encoding='utf-8')


if __name__ == '__main__':
    cli.run(main)
