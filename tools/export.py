"""Export a run for deployment: ``tools/export.py RUN --to DIR --format onnx``.

DIR gets the image encoder, the text encoder and the score of pairs as graphs, tokenizer.json, and export.json, which
says how to prepare pictures and texts. Each graph is checked against the model (ONNX where onnxruntime is installed),
on random pictures and on real ones of --data. MindIR takes any batch, ONNX batches of --batch. recipes/search_onnx.py
searches a folder with nothing but onnxruntime.
"""
import argparse
import os

from hcma import cli


def main():
    """Export and say how far the graphs are from the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run', metavar='RUN', help='a run, or one of its checkpoints')
    parser.add_argument('--to', metavar='DIR', required=True)
    parser.add_argument('--format', choices=('mindir', 'onnx'), default='onnx', help='default: %(default)s')
    parser.add_argument('--batch', type=cli.positive, default=1, help='rows of an ONNX graph (default: %(default)s)')
    parser.add_argument('--data', metavar='DATA', help='pairs to check with, a folder made by tools/prepare.py')
    parser.add_argument('--overwrite', action='store_true', help='replace a DIR that an earlier export wrote')
    arguments = parser.parse_args()

    os.environ['HCMA_KERNELS'] = '0'  # compiled kernels are of this machine: no graph can hold them
    from hcma import backend
    from hcma.interop.export import export
    backend.set_up('graph')
    lines = export(arguments.run, arguments.to, arguments.format, arguments.batch, arguments.overwrite,
                   arguments.data)
    print('\n'.join([*lines, f'wrote {arguments.to}']))


if __name__ == '__main__':
    cli.run(main)
