"""The tables of what not every run has: answered questions, and agreement with people's ratings."""
from hcma.report.markup import (bar, chinese, figure_of, how_to_read, level_label, missing, number, subheading, table,
                                table_row)
from hcma.report.run_files import as_dict, several_levels

EVALUATE_VQA = '.venv/bin/python tools/evaluate.py RUN --data QUESTIONS.jsonl --task vqa'


def answers_questions(metrics):
    """Whether these are of a run that was trained to answer questions."""
    return as_dict(metrics.get('training')).get('task') == 'vqa'


def vqa_part(vqa):
    """Accuracy by type next to the usual answer's."""
    heading = subheading('Questions answered', '视觉问答')
    if figure_of(vqa.get('accuracy')) is None:
        return [heading, missing('answered questions', EVALUATE_VQA)]
    usual, counts = as_dict(vqa.get('majority_types')), as_dict(vqa.get('counts'))
    header = [['type ', chinese('类型')], ['questions ', chinese('问题数')], ['accuracy % ', chinese('准确率')],
              ['usual answer % ', chinese('常见答案')]]
    rows = [table_row(['all questions', '', bar(vqa['accuracy']), bar(vqa.get('majority_by_type'))], 'main')]
    rows += [table_row([kind.replace('_', ' '), number(counts.get(kind), 0), bar(value), bar(usual.get(kind))])
             for kind, value in as_dict(vqa.get('types')).items()]
    return [heading, table(header, rows), how_to_read(
        'The share of questions answered right, beside what the most frequent answer to the training questions of that '
        'type would get without looking.',
        '回答正确的问题比例；旁边是不看图片、总答该类型训练问题中最常见答案的正确率。')]


def judgement_part(judgement):
    """Rank correlations with people's ratings; nothing for a run that was not compared with any."""
    if figure_of(judgement.get('kendall_b')) is None:
        return None
    scores = {'weighted': judgement, **several_levels(judgement.get('levels'))}
    rows = [table_row([level_label(name), *[number(as_dict(values).get(key))
                                            for key in ('kendall_b', 'kendall_c', 'spearman')]])
            for name, values in scores.items()]
    return [subheading('Agreement with people', '与人工评分的一致性'),
            table([['score ', chinese('得分')], 'Kendall τ-b %', 'Kendall τ-c %', 'Spearman ρ %'], rows), how_to_read(
                'Rank correlation of the scores of pairs with their ratings: 100 is the same order, 0 is none.',
                '图文对得分与人工评分的秩相关：100 表示次序相同，0 表示无关。')]
