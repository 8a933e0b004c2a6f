"""Train on many devices: ``bash tools/launch.sh --ranks N RECIPE --set data.train=DATA --out RUN [--resume]``.

A thin cover of MindSpore's msrun, which starts tools/train.py once for each rank. It finds a free port, keeps what the
ranks print in RUN/ranks/worker_*.log, and shows that of the first. Ctrl-C stops all ranks after a common step. Where
one fails the others are ended and its last lines are shown. Over several machines, which must see the same files, start
it on each, with --local-ranks, --node, --master and --port.
"""
import argparse
import os
from pathlib import Path

from hcma import cli
from hcma.errors import InputError
from hcma.job import Job, free_port, require_free, require_rank_table
from hcma.recipe_io import load_recipe

TRAIN = Path(__file__).parents[1] / 'tools' / 'train.py'
# Ranks compile for minutes and not equally long; a collective that hangs ends after ten.
ASCEND = {'HCCL_CONNECT_TIMEOUT': '1200', 'HCCL_EXEC_TIMEOUT': '600'}


def main():
    """Check what can be checked, then run the job; returns its exit code."""
    arguments = _parser().parse_args()
    local = arguments.local_ranks or arguments.ranks
    port = _port(arguments, local)
    load_recipe(arguments.recipe, arguments.overrides).train.require_shares(arguments.ranks)
    require_rank_table(os.environ.get('RANK_TABLE_FILE'), arguments.ranks)
    for name, value in ASCEND.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault('OMP_NUM_THREADS', str(max(1, len(os.sched_getaffinity(0)) // local)))
    msrun = [f'--worker_num={arguments.ranks}', f'--local_worker_num={local}', f'--node_rank={arguments.node}',
             f'--master_addr={arguments.master}', f'--master_port={port}',
             f'--cluster_time_out={arguments.join_timeout}']
    train = [str(TRAIN), arguments.recipe, '--out', arguments.out]
    train += [part for override in arguments.overrides for part in ('--set', override)]
    return Job(msrun, train + ['--resume'] * arguments.resume, Path(arguments.out) / 'ranks', local).run()


def _parser():
    parser = argparse.ArgumentParser(description=__doc__, prog='tools/launch.sh',
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', metavar='RECIPE')
    parser.add_argument('--ranks', type=cli.positive, metavar='N', required=True, help='devices, on all machines')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe; may be repeated')
    parser.add_argument('--out', metavar='RUN', required=True, help='the folder of the run')
    parser.add_argument('--resume', action='store_true', help='go on from the newest checkpoint in RUN')
    parser.add_argument('--local-ranks', type=cli.positive, metavar='N', help='devices of this machine (default: all)')
    parser.add_argument('--node', type=int, default=0, help='the number of this machine (default: %(default)s)')
    parser.add_argument('--master', default='127.0.0.1', metavar='ADDRESS', help='of machine 0 (default: %(default)s)')
    parser.add_argument('--port', type=cli.positive, help='on machine 0 (default, on one machine: one that is free)')
    parser.add_argument('--join-timeout', type=cli.positive, default=300, metavar='SECONDS',
                        help='how long ranks wait for each other at the start (default: %(default)s)')
    return parser


def _port(arguments, local):
    if arguments.port is None:
        if local < arguments.ranks:
            raise InputError('--port: several machines must agree on one; give the same free port on each')
        return free_port()
    if arguments.node == 0:
        require_free(arguments.port)
    return arguments.port


if __name__ == '__main__':
    cli.run(main)
