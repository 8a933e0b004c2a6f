"""Draw generated scenes with captions, choices and questions.

    tools/scenes.py --out DIR [--train N] [--val N] [--test N] [--captions K] [--seed S] [--relations F] [--twins]
                    [--negatives] [--textured F] [--counts F]
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
    parser.add_argument('--textured', type=float, default=0.09, metavar='F',
                        help='share of scenes with stripes or dots (%(default)s)')
    parser.add_argument('--counts', type=float, default=0.1, metavar='F',
                        help='share of the captions of ordinary scenes that count (%(default)s)')
    parser.add_argument('--workers', type=int, metavar='W', help='processes (the cores, at most 4)')
    options = vars(parser.parse_args())
    out = options.pop('out')
    write_scenes(out, **options)
    print(f'{options["train"]} training, {options["val"]} validation and {options["test"]} test scenes are in {out}')


if __name__ == '__main__':
    cli.run(main)
