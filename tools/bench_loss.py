"""Measure the contrastive loss with its gradients, whole and in blocks: ``tools/bench_loss.py [--pairs N]``.

Each row is a process of its own: the fastest of three calls, and by how much its peak memory grew. With ``--words``
the level is word–patch.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

from hcma import cli


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--pairs', type=cli.positive, default=4096, help='default: %(default)s')
    parser.add_argument('--width', type=cli.positive, default=512, help='default: %(default)s')
    parser.add_argument('--words', type=int, default=0, help='of every text; 0 is sentence–global (default)')
    parser.add_argument('--patches', type=cli.positive, default=49, help='of every picture (default: %(default)s)')
    parser.add_argument('--kind', choices=('whole', 'blocks'), help='only this one')
    wanted = parser.parse_args()

    from hcma.columns import align
    table = [['loss', 'ms', 'memory GiB', 'value']]
    for kind in [wanted.kind] if wanted.kind else ['whole', 'blocks']:
        table.append([kind, *measure(kind, wanted)])
    print(align(table))


def measure(kind, wanted):
    """The texts of one row."""
    sizes = map(str, (wanted.pairs, wanted.width, wanted.words, wanted.patches))
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get('PYTHONPATH', '')])
    done = subprocess.run([sys.executable, '-m', 'hcma.bench.losses', kind, *sizes], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': path})
    if done.returncode:
        return '-', 'failed', '-'  # most likely out of memory
    milliseconds, growth, loss = map(float, done.stdout.split()[-3:])
    return f'{milliseconds:.0f}', f'{growth:.2f}', f'{loss:.5f}'


if __name__ == '__main__':
    cli.run(main)
