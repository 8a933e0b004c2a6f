"""Several variants of a model, several seeds each, side by side: a table, a picture, and the numbers as JSON."""
import json

import numpy as np

from hcma.report.curves import LOOK

COLOURS = ('#64748b', '#2563eb')  # of flat variants, and of the others


def write_results(out, runs, name):
    """Read ``runs`` {variant: [run folder of each seed]}, write ``out``/``name`` .json, .md and .png, print the .md."""
    results = {variant: [_numbers(json.loads((run / 'metrics.json').read_text())) for run in folders]
               for variant, folders in runs.items()}
    (out / f'{name}.json').write_text(json.dumps(results, indent=1))
    text = table(results)
    (out / f'{name}.md').write_text(text + '\n', encoding='utf-8')
    draw(results, out / f'{name}.png')
    print(f'\n{text}\n\n{out / name}.json, .md and .png')


def _numbers(metrics):
    """What is compared, {label: number}, out of a run's metrics."""
    found = {'macro': metrics['choice']['macro'], **metrics['choice']['types']}
    if 'twins' in metrics:
        found['twins, group'] = metrics['twins']['group']
    found['image→text R@1'] = metrics['retrieval']['image_to_text']['r1']
    found['text→image R@1'] = metrics['retrieval']['text_to_image']['r1']
    found.update({f'questions, {key.removeprefix("vqa_")} head': value['accuracy'] for key, value in metrics.items()
                  if key.startswith('vqa_')})
    training = metrics['training']
    found['CPU ms per image'] = 1000 / training['images_per_cpu_s']
    found['steps'] = training['steps']
    return found


def table(results):
    """Markdown: a row for each variant, the mean over its seeds and, where there are several, half their range."""
    labels = list(dict.fromkeys(label for seeds in results.values() for seed in seeds for label in seed))
    lines = ['| | ' + ' | '.join(labels) + ' |', '|---' * (len(labels) + 1) + '|']
    for variant, seeds in results.items():
        cells = [_cell([seed[label] for seed in seeds if label in seed]) for label in labels]
        lines.append(f'| {variant} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def _cell(values):
    if not values:
        return ''
    spread = f' ± {(max(values) - min(values)) / 2:.1f}' if len(values) > 1 else ''
    return f'{np.mean(values):.1f}{spread}'


def draw(results, path):
    """A panel for each measure in percent: a dot for every seed of every variant, a bar at the mean."""
    import matplotlib.style
    from matplotlib.figure import Figure
    labels = [label for label in next(iter(results.values()))[0] if label not in ('CPU ms per image', 'steps')]
    columns = 4
    rows = -(-len(labels) // columns)
    with matplotlib.style.context(['default', LOOK]):
        figure = Figure(figsize=(3.0 * columns + 1.6, (0.24 * len(results) + 0.7) * rows), layout='constrained')
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for panel, label in zip(panels.flat, labels):
            _panel(panel, label, results)
        for panel in panels.flat[len(labels):]:
            panel.axis('off')
        figure.savefig(path, dpi=120)


def _panel(panel, label, results):
    for place, (variant, seeds) in enumerate(results.items()):
        values = [seed[label] for seed in seeds if label in seed]
        if values:
            colour = COLOURS[not variant.startswith('flat')]
            panel.barh(place, np.mean(values), height=0.6, color=colour, alpha=0.25)
            panel.plot(values, [place] * len(values), 'o', color=colour, markersize=3.5)
    panel.set_title(label, fontsize=9)
    panel.set_yticks(range(len(results)), list(results))
    panel.invert_yaxis() if not panel.yaxis_inverted() else None
    panel.set_xlim(0, 100)
