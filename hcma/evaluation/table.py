"""Results as tables for a terminal."""
from hcma.columns import align
from hcma.evaluation.twins import CHANCE

WORST = 5  # classes that are shown


def retrieval_table(result):
    """Recalls and ranks of every level, both ways."""
    rows = [['retrieval', 'image→text R@1', 'R@5', 'R@10', 'median', 'text→image R@1', 'R@5', 'R@10', 'median']]
    for name, directions in result['levels'].items():
        rows.append([name] + [_number(directions[way][key]) for way in ('image_to_text', 'text_to_image')
                              for key in ('r1', 'r5', 'r10', 'median_rank')])
    return f'{result["images"]} images, {result["captions"]} captions\n{align(rows)}'


def choice_table(result):
    """Accuracy of every type, a column a level."""
    names = list(result['levels'])
    rows = [['choice (chance 50)', *names, 'choices']]
    for kind, count in result['counts'].items():
        rows.append([kind] + [_number(result['levels'][name]['types'][kind]) for name in names] + [str(count)])
    for total in ('macro', 'overall'):
        rows.append([total] + [_number(result['levels'][name][total]) for name in names]
                    + [str(sum(result['counts'].values()))])
    return align(rows)


def twins_table(result):
    """Text, image and group score, a column a level."""
    names = list(result['levels'])
    rows = [['twins', *names, 'chance']]
    rows += [[score, *(_number(result['levels'][name][score]) for name in names), _number(chance)]
             for score, chance in CHANCE.items()]
    return f'{result["pairs"]} pairs of twins\n{align(rows)}'


def vqa_table(result):
    """Accuracy of every type, next to the usual answer's."""
    rows = [['questions answered right', 'accuracy', 'usual answer', 'questions']]
    for kind, count in result['counts'].items():
        rows.append([kind, _number(result['types'][kind]), _number(result['majority_types'][kind]), str(count)])
    total = str(sum(result['counts'].values()))
    rows.append(['overall, usual answer per type', _number(result['accuracy']), _number(result['majority_by_type']),
                 total])
    rows.append(['overall, one usual answer', _number(result['accuracy']), _number(result['majority']), total])
    return f'{align(rows)}\nthe vocabulary holds the answer of {_number(result["answerable"])}%'


def zero_shot_table(result):
    """Accuracies, a column a level, and the classes that fared worst."""
    names, choices = list(result['levels']), result['choices']
    rows = [['zero-shot', *names, 'chance']]
    rows += [[title, *(_number(result['levels'][name][key]) for name in names), _number(100 * min(1, count / choices))]
             for title, key, count in (('top-1', 'top1', 1), ('top-5', 'top5', 5),
                                       ('mean per class', 'mean_per_class', 1))]
    worst = sorted(result['classes'].items(), key=lambda item: item[1]['top1'])[:WORST]
    worst = [['worst classes', 'top-1', 'pictures', 'taken for']] + [
        [name, _number(row['top1']), str(row['images']), row['taken_for'] or '–'] for name, row in worst]
    return (f'{result["images"]} pictures, {choices} classes, {result["templates"]} templates\n{align(rows)}\n\n'
            f'{align(worst)}')


def judgement_table(result):
    """Rank correlations of every level."""
    rows = [['agreement with people', 'Kendall τ-b', 'Kendall τ-c', 'Spearman ρ']]
    for name, values in result['levels'].items():
        rows.append([name] + [_number(values[key]) for key in ('kendall_b', 'kendall_c', 'spearman')])
    return f'{result["pairs"]} pairs, {result["ratings"]} ratings; correlations in percent\n{align(rows)}'


def _number(value):
    return '–' if value is None else f'{value:.1f}'
