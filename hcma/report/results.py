"""The tables of results of one run: the headline, retrieval, fine-grained choices."""
from hcma.report.answers import answers_questions, judgement_part, vqa_part
from hcma.report.markup import (bar, chinese, duration, figure_of, how_to_read, level_label, missing, node, number,
                                section, short_count, subheading, table, table_row)
from hcma.report.run_files import as_dict, several_levels
from hcma.report.sides import sides_part
from hcma.report.zero_shot import zero_shot_part

EVALUATE_RETRIEVAL = '.venv/bin/python tools/evaluate.py RUN --data DATA_TEST --task retrieval'
EVALUATE_CHOICE = '.venv/bin/python tools/evaluate.py RUN --data CHOICES.jsonl --task choice'
DIRECTIONS = {'image_to_text': ('image → text', '以图搜文'), 'text_to_image': ('text → image', '以文搜图')}
RECALLS = ('r1', 'r5', 'r10')
RANKS = ('median_rank', 'mean_rank')


def results_section(metrics, album):
    """Headline tiles and the table of each evaluation; a run that answers questions has no others."""
    of = {task: as_dict(metrics.get(task)) for task in ('retrieval', 'choice', 'vqa', 'judgement', 'zero_shot')}
    parts = vqa_part(of['vqa']) if answers_questions(metrics) else [
        retrieval_part(of['retrieval']), choice_part(of['choice']), judgement_part(of['judgement']),
        zero_shot_part(of['zero_shot'], album),
        sides_part(as_dict(metrics.get('distillation')))]
    return section('results', 'Results', '结果', tiles(metrics), parts)


def tiles(metrics):
    """The few numbers most readers come for; those a run lacks are left out."""
    retrieval, training = as_dict(metrics.get('retrieval')), as_dict(metrics.get('training'))
    candidates = [(f'{english} R@10', f'{translated} R@10', as_dict(retrieval.get(direction)).get('r10'), percent)
                  for direction, (english, translated) in DIRECTIONS.items()]
    candidates += [('fine-grained choice', '细粒度选择', as_dict(metrics.get('choice')).get('macro'), percent),
                   ('zero-shot top-1', '零样本 top-1', as_dict(metrics.get('zero_shot')).get('top1'), percent),
                   ('questions answered', '视觉问答', as_dict(metrics.get('vqa')).get('accuracy'), percent),
                   ('images per second', '每秒图像数', training.get('images_per_s'), number),
                   ('training time', '训练时间', training.get('seconds'), duration),
                   ('parameters', '参数量', training.get('parameters'), short_count)]
    found = [node('div', node('b', show(value)), node('span', english), chinese(translated), class_='tile')
             for english, translated, value, show in candidates if figure_of(value) is not None]
    return node('div', found, class_='tiles') if found else None


def percent(value):
    """A percentage with its sign."""
    return [number(value), '%']


def retrieval_part(retrieval):
    """Recalls and ranks both ways, for the score in use and for each level alone."""
    heading = subheading('Retrieval', '图文检索')
    rows = [row for direction in DIRECTIONS for row in retrieval_rows(retrieval, direction)]
    if not rows:
        return [heading, missing('retrieval results', EVALUATE_RETRIEVAL)]
    header = [['direction ', chinese('方向')], node('th', 'score ', chinese('得分'), class_='name'),
              'R@1 %', 'R@5 %', 'R@10 %', ['median rank ', chinese('名次中位数')], ['mean rank ', chinese('平均名次')]]
    return [heading, table(header, rows), retrieval_sentence(retrieval)]


def retrieval_sentence(retrieval):
    """How to read the retrieval table, and what guessing would give."""
    text = ('R@k is the share of queries with a right answer among the first k (higher is better); rank is the place '
            'of the first right answer (1 is best).')
    text_zh = 'R@k 为前 k 名中含正确答案的查询比例（越高越好）；名次为首个正确答案的位置（1 最好）。'
    images, captions = figure_of(retrieval.get('images')), figure_of(retrieval.get('captions'))
    if images and captions:
        chance = f'{100 * min(10 / images, 1):.2g}%'
        text += (f' Searched among {images:,.0f} images and {captions:,.0f} captions; guessing gives a text → image '
                 f'R@10 of about {chance}.')
        text_zh += f'在 {images:,.0f} 张图像和 {captions:,.0f} 条描述中检索；随机猜测的以文搜图 R@10 约为 {chance}。'
    return how_to_read(text, text_zh)


def retrieval_rows(retrieval, direction):
    """The rows of one direction: the score in use, then the levels it is made of, if there are several."""
    levels = as_dict(retrieval.get('levels'))
    used = as_dict(retrieval.get(direction)) or as_dict(as_dict(levels.get('weighted')).get(direction))
    parts = several_levels(levels)
    name = 'weighted' if parts or not levels else next(iter(levels))
    name = 'reranked' if 'reranked' in levels else name
    rows = [retrieval_row(direction, name, used, 'main')] if used else []
    return rows + [retrieval_row(direction, level, as_dict(values.get(direction))) for level, values in parts.items()
                   if level != name and as_dict(values.get(direction))]


def retrieval_row(direction, level, values, class_=None):
    """One row of the retrieval table."""
    english, translated = DIRECTIONS[direction]
    return table_row([[english, ' ', chinese(translated)], node('td', level_label(level), class_='name'),
                      *[bar(values.get(key)) for key in RECALLS], *[number(values.get(key)) for key in RANKS]], class_)


def choice_part(choice):
    """Accuracy by type, for the score in use and for each level alone."""
    heading = subheading('Fine-grained choices', '细粒度选择')
    if figure_of(choice.get('macro')) is None and not as_dict(choice.get('types')):
        return [heading, missing('fine-grained choices', EVALUATE_CHOICE)]
    levels = several_levels(choice.get('levels'))
    header = [['type ', chinese('类型')], ['pairs ', chinese('数量')], ['accuracy % ', chinese('准确率')],
              *[level_label(name) for name in levels]]
    counts = as_dict(choice.get('counts'))
    rows = [table_row(['macro average', number(total(counts), 0), bar(choice.get('macro')),
                       *[bar(values.get('macro')) for values in levels.values()]], 'main')]
    rows += [table_row([kind.replace('_', ' '), number(counts.get(kind), 0), bar(value),
                        *[bar(as_dict(values.get('types')).get(kind)) for values in levels.values()]])
             for kind, value in as_dict(choice.get('types')).items()]
    if figure_of(choice.get('overall')) is not None:
        rows.append(table_row(['all pairs together', number(total(counts), 0), bar(choice['overall']),
                               *['' for _ in levels]]))
    return [heading, table(header, rows), how_to_read(
        'The share of pairs where the true caption scores higher than the false one (a tie counts half): guessing '
        'gives 50%; the macro average counts every type alike.',
        '真实描述得分高于错误描述的比例（平局计一半）：随机为 50%；宏平均对每种类型同等看待。')]


def total(counts):
    """The sum of the counts, or ``None`` without any."""
    known = [figure_of(count) for count in counts.values()]
    return int(sum(count for count in known if count is not None)) if any(known) else None
