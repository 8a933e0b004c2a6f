"""What mixed precision saves and keeps: memory measured on CPU and counted for a card, and the curves of the loss."""
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from hcma.bench.memory import peak
from hcma.columns import align
from hcma.plan.memory import GIB, activations, needs, setting_of, usable
from hcma.recipe_io import parse_recipe
from hcma.report.curves import LOOK, smooth, smoothing_window
from hcma.report.run_files import read_log

MEMORY = 64 * GIB  # of a card
BATCH = 256  # that activations are counted at
COLOURS = ('#64748b', '#2563eb')


def memory_table(kind):
    """Text: what ``counted`` gives, and the peak of a process that trains on CPU."""
    names = ('fp32', 'fp16')  # bf16 does not run on CPU
    peaks = [peak(_recipe('small', name, BATCH).model_dump(mode='json')) / GIB for name in names]
    measured = ', '.join(f'{name} {value:.2f} GiB' for name, value in zip(names, peaks))
    return (f'{counted(kind)}\n\n'
            f'on CPU, measured: peak of a process that trains small with batch {BATCH}: {measured}')


def counted(kind):
    """Text: for each preset the activations and the largest batch on a card, in fp32 and in ``kind``."""
    rows = [['on a card, counted', 'activations fp32', kind, 'share', 'largest batch fp32', kind]]
    for preset in ('small', 'vit_b32', 'vit_b16'):
        recipes = [_recipe(preset, name, BATCH) for name in ('fp32', kind)]
        held = [sum(activations(recipe, setting_of(recipe)).values()) / GIB for recipe in recipes]
        batches = [_largest_batch(preset, name) for name in ('fp32', kind)]
        rows.append([f'{preset}, batch {BATCH}', f'{held[0]:.2f} GiB', f'{held[1]:.2f} GiB', f'{held[1] / held[0]:.0%}',
                     *map(str, batches)])
    return align(rows)


def _recipe(preset, name, batch):
    return parse_recipe({'model': {'preset': preset}, 'train': {'epochs': 1, 'batch_size': batch},
                         'precision': {'image': name, 'text': name}}, preset)


def _largest_batch(preset, name):
    """The largest batch that fits, to a 64th of it."""
    fitting, beyond = 2, 4
    while _fits(preset, name, beyond):
        fitting, beyond = beyond, 2 * beyond
    while beyond - fitting > max(1, fitting // 64):
        middle = (fitting + beyond) // 2
        fitting, beyond = (middle, beyond) if _fits(preset, name, middle) else (fitting, middle)
    return fitting


def _fits(preset, name, batch):
    recipe = _recipe(preset, name, batch)
    setting = setting_of(recipe)
    return needs(recipe, setting).fits(usable(setting, MEMORY))


def draw_losses(runs, path):
    """The loss of every run of ``runs`` {name: [run folder of each seed]} over its steps, as a picture."""
    with matplotlib.style.context(['default', LOOK]):
        figure = Figure(figsize=(5.6, 2.7), layout='constrained')
        axes = figure.subplots()
        for (name, folders), colour in zip(runs.items(), COLOURS):
            for place, folder in enumerate(folders):
                log = read_log(folder / 'log.jsonl')
                kept = np.isfinite(log.columns['loss'])
                values = log.columns['loss'][kept]
                axes.plot(log.steps[kept], smooth(values, smoothing_window(len(values))), color=colour, linewidth=1.0,
                          label=None if place else name)
        axes.set_xlabel('step')
        axes.set_ylabel('loss')
        axes.legend()
        figure.savefig(path, dpi=120)
