"""Several runs side by side, each with its difference from the first."""
from hcma.report.markup import (bar, chinese, duration, figure_of, how_to_read, missing, node, number, section, table,
                                table_row)
from hcma.report.results import DIRECTIONS, RANKS, RECALLS
from hcma.report.run_files import as_dict

COMPARE = 'bash tools/quickstart.sh'
LABELS = {'r1': 'R@1 %', 'r5': 'R@5 %', 'r10': 'R@10 %', 'median_rank': 'median rank', 'mean_rank': 'mean rank'}


def comparison_section(runs):
    """The table of ``runs``, the rows of comparison.json; a sentence when there are fewer than two."""
    if len(runs) < 2:
        return section('comparison', 'Comparison', '对比', missing('second run to compare with', COMPARE))
    first, *others = [str(run.get('name', place + 1)) for place, run in enumerate(runs)]
    header = [['measure ', chinese('指标')], first]
    for name in others:
        header += [name, ['difference ', chinese('差值')]]
    rows = choice_rows(runs) + retrieval_rows(runs) + seconds_row(runs)
    return section('comparison', 'Comparison', '对比', table(header, rows), how_to_read(
        f'Each difference is the run minus “{first}”, in percentage points (for ranks in places): green is better, '
        'red is worse.', f'差值为该次运行减去“{first}”，单位为百分点（名次则为位数）：绿色为更好，红色为更差。'))


def choice_rows(runs):
    """Accuracy, macro and by type: the types of all runs in their order of appearance."""
    choices = [as_dict(run.get('choice')) for run in runs]
    types = list(dict.fromkeys(kind for choice in choices for kind in as_dict(choice.get('types'))))
    lines = [('choice, macro average %', [choice.get('macro') for choice in choices], 'main')]
    lines += [(f'choice, {kind.replace("_", " ")} %', [as_dict(choice.get('types')).get(kind) for choice in choices],
               None) for kind in types]
    return [comparison_row(label, values, class_) for label, values, class_ in lines if any_figure(values)]


def retrieval_rows(runs):
    """Recalls and ranks, both ways."""
    rows = []
    for direction, (english, _) in DIRECTIONS.items():
        both = [as_dict(as_dict(run.get('retrieval')).get(direction)) for run in runs]
        for key in RECALLS + RANKS:
            values = [values.get(key) for values in both]
            if any_figure(values):
                class_ = 'main' if key == 'r1' else None
                rows.append(comparison_row(f'{english}, {LABELS[key]}', values, class_, is_rank=key in RANKS))
    return rows


def comparison_row(label, values, class_=None, is_rank=False):
    """One measure of every run."""
    cell = number if is_rank else bar
    first, *others = values
    cells = [label, cell(first)]
    for value in others:
        cells += [cell(value), difference(first, value, is_rank)]
    return table_row(cells, class_)


def difference(first, value, lower_is_better):
    """A cell with ``value`` minus ``first``, coloured by whether it is better."""
    if figure_of(first) is None or figure_of(value) is None:
        return node('td', number(None))
    # Rounded first: what shows as 0.0 is neither better nor worse.
    gap = round(value - first, 1)
    is_better = gap < 0 if lower_is_better else gap > 0
    return node('td', number(gap, signed=True), class_=None if gap == 0 else 'better' if is_better else 'worse')


def seconds_row(runs):
    """How long each run trained."""
    seconds = [run.get('seconds') for run in runs]
    if not any_figure(seconds):
        return []
    cells = ['training time', duration(seconds[0])]
    for value in seconds[1:]:
        cells += [duration(value), '']
    return [table_row(cells)]


def any_figure(values):
    """Whether at least one of the values is a number."""
    return any(figure_of(value) is not None for value in values)
