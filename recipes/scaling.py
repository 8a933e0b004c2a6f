"""How a training step grows with batch, depth, words, patches and pixels, and the start with the pairs of a data set.

    recipes/scaling.py [--out DIR] [--axes batch depth ...] [--clock cpu]

Every value is measured in a process of its own. The slope of a line in the log-log plot is the power it grows with; it
is set beside that of the operations which the mathematics asks for (hcma/plan/flops.py). Writes scaling.json, .md and
.png into DIR.
"""
import argparse
import json
from pathlib import Path

from tqdm import tqdm

from hcma import cli
from hcma.bench.scaling import AXES, counted, run, slope

MIB = 2 ** 20


def main():
    """Measure, and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/scaling', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--axes', nargs='+', choices=AXES, default=list(AXES), metavar='AXIS',
                        help=f'of {", ".join(AXES)} (default: all)')
    parser.add_argument('--clock', choices=('wall', 'cpu'), default='wall',
                        help='cpu: processor seconds, for a machine with other work on it (default: %(default)s)')
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    measured = {axis: [run(axis, value) for value in tqdm(AXES[axis], axis)] for axis in arguments.axes}
    (out / 'scaling.json').write_text(json.dumps(measured, indent=1), encoding='utf-8')
    text = table(measured, arguments.clock)
    (out / 'scaling.md').write_text(text + '\n', encoding='utf-8')
    draw(measured, arguments.clock, out / 'scaling.png')
    print(f'{text}\n\n{out}/scaling.json, .md and .png')


def table(measured, clock):
    """A row for each axis: slopes measured and counted, and the largest value's time and memory."""
    lines = ['| | from – to | grows with the power | by its mathematics | time at the end | memory at the end, MiB |',
             '|---|---|---|---|---|---|']
    for axis, results in measured.items():
        values, last = AXES[axis], results[-1]
        powers = [slope(values, costs) for costs in ([one[clock] for one in results],
                                                     [counted(axis, value) for value in values])]
        lines.append(f'| {axis} | {values[0]:,} – {values[-1]:,} | {powers[0]:.2f} | {powers[1]:.2f} | '
                     f'{last[clock]:.3f} s | {last["memory"] / MIB:,.0f} |')
    return '\n'.join(lines)


def draw(measured, clock, path):
    """A panel for each axis: seconds, and the counted operations moved to the last of them."""
    import matplotlib.style
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    from hcma.report.curves import LOOK
    with matplotlib.style.context(['default', LOOK]):
        figure = Figure(figsize=(9, 4.6), layout='constrained')
        for panel, (axis, results) in zip(figure.subplots(2, 3).flat, measured.items()):
            values, seconds = AXES[axis], [one[clock] for one in results]
            costs = [counted(axis, value) for value in values]
            panel.loglog(values, seconds, 'o-', color='#1d4ed8', label='measured')
            panel.loglog(values, [seconds[-1] * cost / costs[-1] for cost in costs], '--', color='#f97316',
                         label='its mathematics')
            panel.set_xticks(values, [f'{value:,}' for value in values])
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_title(f'{axis}: seconds', fontsize=9)
        figure.axes[0].legend(fontsize=8)
        figure.savefig(path, dpi=120)


if __name__ == '__main__':
    cli.run(main)
