"""Measure what each part of the alignment costs a training step: ``tools/bench_parts.py [--preset NAME] [--batch N]``.

Flat CLIP and the same encoders with more take turns on one random batch; medians, and the ratio to flat.
"""
import argparse
import statistics
import time

from hcma import cli
from hcma.presets import PRESETS

TWO = ['sentence_global', 'word_patch']
PARTS = {
    'flat': {'loss': {'levels': TWO[:1]}},
    'flat, negatives': {'loss': {'levels': TWO[:1]}, 'negatives': True},
    'word-patch': {'loss': {'levels': TWO}},
    'word-patch, phrase-region': {'loss': {'levels': [*TWO, 'phrase_region']}},
    'word-patch, score attention': {'loss': {'levels': TWO, 'score': 'attention'}},
    'word-patch, score in_pair': {'loss': {'levels': TWO, 'score': 'in_pair'}},
    'word-patch, negatives': {'loss': {'levels': TWO}, 'negatives': True},
    'word-patch, fusion': {'loss': {'levels': TWO}, 'fusion': {'heads': 4}},
    'word-patch, fp16': {'loss': {'levels': TWO}, 'precision': {'image': 'fp16', 'text': 'fp16'}},
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--preset', choices=PRESETS, default='small', help='default: %(default)s')
    parser.add_argument('--batch', type=cli.positive, default=64, metavar='N', help='default: %(default)s')
    parser.add_argument('--rounds', type=cli.positive, default=15, metavar='N', help='default: %(default)s')
    arguments = parser.parse_args()

    from hcma import backend
    from hcma.columns import align
    backend.set_up('graph')
    steps = {name: step_of(arguments, **part) for name, part in PARTS.items()}
    times = {name: [] for name in steps}
    for turn in range(arguments.rounds + 2):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn >= 2:  # the first turns compile and warm up
                times[name].append((time.perf_counter() - start) * 1e3)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    rows = [['part', 'ms a step', 'of flat']]
    print(align(rows + [[name, f'{taken:.1f}', f'{taken / medians["flat"]:.2f}'] for name, taken in medians.items()]))


def step_of(arguments, loss, fusion=None, negatives=False, precision=None):
    """A call that trains one step and waits for it."""
    import mindspore as ms

    from hcma.bench.memory import random_batch
    from hcma.recipe_io import parse_recipe
    from hcma.training.trainer import build_step
    recipe = parse_recipe({'model': {'preset': arguments.preset, 'fusion': fusion}, 'loss': loss,
                           'data': {'negatives': 'data' if negatives else 'none'},
                           'precision': precision or {},
                           'train': {'epochs': 1, 'batch_size': arguments.batch}}, 'the benchmark')
    step = build_step(recipe, recipe.model.text.vocab_size, 1000)
    batch = [ms.Tensor(column) for column in random_batch(recipe, 0)]
    return lambda: step(*batch)[1].asnumpy()


if __name__ == '__main__':
    cli.run(main)
