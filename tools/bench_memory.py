"""Compare planned with measured peaks on this CPU: ``tools/bench_memory.py [--calibrate]``.

Prints the table of docs/planning.md: for each recipe the peak of a fresh process that trains three steps, beyond that
of one that has loaded MindSpore, and what the plan says. With --calibrate the recipes are others, and the constants of
hcma/plan/cpu.py that fit them best are printed as well.
"""
import argparse

import numpy as np
from tqdm import tqdm

from hcma import cli
from hcma.bench.memory import peak
from hcma.bench.memory_recipes import CALIBRATION, REPORTED
from hcma.columns import align
from hcma.plan import cpu
from hcma.plan.memory import needs, setting_of
from hcma.recipe_io import parse_recipe


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--calibrate', action='store_true', help='measure other recipes and fit the constants')
    recipes = CALIBRATION if parser.parse_args().calibrate else REPORTED
    baseline = peak()
    rows, parsed, measured = [['recipe', 'planned MiB', 'measured MiB', 'difference']], [], []
    for name, values in tqdm(recipes.items(), 'recipes'):
        parsed.append(parse_recipe(values, name))
        measured.append(peak(values) - baseline)
        planned = needs(parsed[-1], setting_of(parsed[-1], device='cpu')).total
        rows.append([name, *(f'{value / cpu.MIB:,.0f}' for value in (planned, measured[-1])),
                     f'{planned / measured[-1] - 1:+.0%}'])
    print(f'a process that has loaded MindSpore: {baseline / cpu.MIB:.0f} MiB\n{align(rows)}')
    if recipes is CALIBRATION:
        print(align(fit(parsed, measured)))


def fit(recipes, measured):
    """The constants that make the mean square of the relative errors smallest, as rows of a table."""
    rows, rest = [], []
    for recipe, bytes_ in zip(recipes, measured):
        counts = cpu.terms(recipe, setting_of(recipe, device='cpu'))
        rows.append([sum(counts['backward'].values()), sum(counts['forward'].values()), counts['features'],
                     counts['trained'], counts['blocks'] * cpu.MIB, cpu.MIB])
        rest.append(bytes_ - counts['weights'] - 2 * counts['trained'])
    scale = 1 / np.array(measured, float)
    found = np.linalg.lstsq(np.array(rows, float) * scale[:, None], np.array(rest, float) * scale, rcond=None)[0]
    return [['constant', 'fitted'], *([name, f'{value:.2f}'] for name, value in zip(
        ('BACKWARD', 'FORWARD', 'FEATURES', 'GRADIENTS', 'BLOCK / MIB', 'FIXED / MIB'), found))]


if __name__ == '__main__':
    cli.run(main)
