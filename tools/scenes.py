"""Draw generated scenes with captions, choices and questions.

    tools/scenes.py --out DIR [--train N] [--val N] [--test N] [--captions K] [--seed S] [--relations F] [--twins]
                    [--negatives]
"""
import argparse

from hcma import cli
from hcma.data.scenes import write_scenes


def main():
    """Write the scenes that the command line asks for."""
    parser = argparse.ArgumentParser(description='Draw generated scenes with captions, choices and questions.')
    parser.add_argument('--out', required=True, metavar='DIR', help='the folder to write to')
    parser.add_argument('--train', type=int, default=12000, metavar='N', help='training scenes (%(default)s)')
    parser.add_argument('--val', type=int, default=1000, metavar='N', help='validation scenes (%(default)s)')
    parser.add_argument('--test', type=int, default=2000, metavar='N', help='test scenes (%(default)s)')
    parser.add_argument('--captions', type=int, default=4, metavar='K', help='captions of a scene (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, metavar='S', help='(%(default)s)')
    parser.add_argument('--relations', type=float, default=0.0, metavar='F',
                        help='share of scenes whose captions all state a relation (%(default)s)')
    parser.add_argument('--twins', action='store_true',
                        help='draw those scenes (all, if there is no share) as pairs with the relation mirrored')
    parser.add_argument('--negatives', action='store_true', help='give training scenes false captions as well')
    parser.add_argument('--workers', type=int, metavar='W', help='processes (the cores, at most 4)')
    args = parser.parse_args()
    write_scenes(args.out, args.train, args.val, args.test, args.captions, args.seed, args.relations, args.twins,
                 args.negatives, args.workers)
    print(f'{args.train} training, {args.val} validation and {args.test} test scenes are in {args.out}')


if __name__ == '__main__':
    cli.run(main)
