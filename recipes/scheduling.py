"""What scheduling gives: a naive loop against the scheduled one, on the same batches.

    recipes/scheduling.py [--out DIR] [--train DATA]

The naive loop decodes a batch, then trains on it as one graph, then reads the loss. The scheduled one prepares batches
ahead and encodes them in micro-batches (``AsyncModalScheduler``); its losses are the same. They take turns, each in a
process of its own; medians. Without --train the data are generated pictures of the size of photographs. Writes
scheduling.json, scheduling.md and scheduling.png into DIR.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from hcma import cli
from hcma.bench.scenes import draw_photographs
from hcma.data.meta import META
from hcma.plan.memory import GIB
from hcma.recipe_io import load_recipe

CONFIG = Path(__file__).parent / 'configs' / 'scheduling.yaml'
KINDS = ('naive', 'scheduled')
PICTURES = 2048
SHARES = {'time_step': 'step in one graph', 'time_images': 'images', 'time_texts': 'texts', 'time_loss': 'loss',
          'time_update': 'update', 'time_data': 'waiting for data', 'time_host': 'host'}
COLOURS = ('#1d4ed8', '#2563eb', '#60a5fa', '#93c5fd', '#1e3a8a', '#f97316', '#94a3b8')


def main():
    """Measure and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/scheduling', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--train', metavar='DATA', help='pairs of your own, packed by tools/prepare.py')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of recipes/configs/scheduling.yaml; may be repeated')
    parser.add_argument('--image-scale', type=cli.positive, default=32, metavar='N',
                        help='micro-batches of pictures (default: %(default)s)')
    parser.add_argument('--text-scale', type=cli.positive, default=8, metavar='N',
                        help='micro-batches of texts (default: %(default)s)')
    parser.add_argument('--steps', type=cli.positive, default=8, metavar='N', help='default: %(default)s')
    parser.add_argument('--rounds', type=cli.positive, default=3, metavar='N', help='default: %(default)s')
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    data = arguments.train or photographs(out)
    recipe = load_recipe(CONFIG, [f'data.train={data}', *arguments.overrides])
    results = {kind: [] for kind in KINDS}
    for turn in range(arguments.rounds):
        for kind in KINDS:
            print(f'{kind}, round {turn + 1} of {arguments.rounds}', file=sys.stderr, flush=True)
            results[kind].append(measure(kind, recipe, arguments))
    write(out, results, recipe)


def photographs(out):
    """Draw and pack pictures as large, and as costly to decode, as photographs."""
    from hcma.data.pack import pack
    from hcma.data.sources import read_pairs
    data = out / 'data'
    if not (data / META).exists():
        pairs, rejects = read_pairs(draw_photographs(out / 'scenes', PICTURES), 'jsonl')
        pack(pairs, data, rejects, 'train.jsonl')
    return data


def measure(kind, recipe, arguments):
    """The numbers of one process."""
    done = subprocess.run([sys.executable, '-m', 'hcma.bench.scheduling', kind, *map(str, (
        arguments.steps, arguments.image_scale, arguments.text_scale))], input=yaml.safe_dump(recipe.model_dump()),
        capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def write(out, results, recipe):
    """The table, printed too, the picture and all numbers."""
    (out / 'scheduling.json').write_text(json.dumps(results, indent=1))
    middle = {kind: {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != 'losses'}
              for kind, runs in results.items()}
    base = middle['naive']
    lines = [f'Batch {recipe.train.batch_size}; the losses of both differ by at most {difference(results):.1e}.', '',
             '| | device computes | peak memory, GiB | of naive | images/s | of naive |', '|---|---|---|---|---|---|']
    lines += [f'| {kind} | {one["utilisation"]:.0%} | {one["peak"] / GIB:.2f} | {one["peak"] / base["peak"]:.0%} | '
              f'{one["images_per_s"]:.0f} | {one["images_per_s"] / base["images_per_s"]:.2f} |'
              for kind, one in middle.items()]
    text = '\n'.join(lines)
    (out / 'scheduling.md').write_text(text + '\n', encoding='utf-8')
    draw(middle, out / 'scheduling.png')
    print(f'{text}\n\n{out}/scheduling.json, .md and .png')


def difference(results):
    """The largest relative difference between losses of the same step."""
    naive, scheduled = (np.array(results[kind][0]['losses']) for kind in KINDS)
    return float(np.max(np.abs(naive / scheduled - 1)))


def draw(middle, path):
    """Where the time of an image goes, and the peak, side by side."""
    import matplotlib.style
    from matplotlib.figure import Figure

    from hcma.report.curves import LOOK
    with matplotlib.style.context(['default', LOOK]):
        figure = Figure(figsize=(9, 2.2), layout='constrained')
        times, memory = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        for place, one in enumerate(middle.values()):
            left, each = 0.0, 1000 / one['images_per_s']
            for (key, label), colour in zip(SHARES.items(), COLOURS):
                width = each * one.get(key, 0.0)
                times.barh(place, width, left=left, color=colour, label=label if place == 0 else None)
                left += width
            memory.barh(place, one['peak'] / GIB, color='#64748b')
        times.set_yticks(range(len(middle)), list(middle))
        times.invert_yaxis()
        times.set_title('ms for an image', fontsize=9)
        times.legend(fontsize=7, ncols=4, loc='upper center', bbox_to_anchor=(0.5, -0.15))
        memory.set_title('peak memory, GiB', fontsize=9)
        figure.savefig(path, dpi=120)


if __name__ == '__main__':
    cli.run(main)
