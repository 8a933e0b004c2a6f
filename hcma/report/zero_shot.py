"""Classification without training: accuracies, the classes that fared worst, and which was taken for which."""
from hcma.report.markup import (bar, chinese, figure_of, how_to_read, level_label, node, number, subheading, table,
                                table_row)
from hcma.report.run_files import as_dict, several_levels

WORST = 12  # classes that are shown
CONFUSION = 'confusion.png'
ACCURACIES = ('top1', 'top5', 'mean_per_class')


def zero_shot_part(result, album):
    """The tables, and the picture of the confusions out of the ``album``; nothing for a run without them."""
    if figure_of(result.get('top1')) is None:
        return None
    scores = {'weighted': result, **several_levels(result.get('levels'))}
    rows = [table_row([level_label(name), *[bar(as_dict(values).get(key)) for key in ACCURACIES]],
                      'main' if name == 'weighted' else None) for name, values in scores.items()]
    images, choices, templates = (f'{figure_of(result.get(key)) or 0:,.0f}' for key in
                                  ('images', 'choices', 'templates'))
    return [subheading('Zero-shot classification', '零样本分类'),
            table([['score ', chinese('得分')], 'top-1 %', 'top-5 %', ['mean per class % ', chinese('类别平均')]],
                  rows),
            how_to_read(f'The share of {images} pictures whose class name, put into {templates} prompts, scores best, '
                        f'or among the best five, of {choices} classes.',
                        f'{images} 张图像中，正确类名（填入 {templates} 个提示模板）在 {choices} 个类别里得分最高或位于前五的比例。'),
            _worst(as_dict(result.get('classes'))), _confusions(album)]


def _worst(classes):
    rows = sorted(((name, as_dict(row)) for name, row in classes.items()),
                  key=lambda item: figure_of(item[1].get('top1')) or 0)[:WORST]
    return table([['worst classes ', chinese('最差类别')], ['pictures ', chinese('图像数')], 'top-1 %',
                  ['taken for ', chinese('误判为')]],
                 [table_row([name, number(row.get('images'), 0), bar(row.get('top1')), row.get('taken_for') or ''])
                  for name, row in rows]) if rows else None


def _confusions(album):
    address = album.whole(CONFUSION)
    return None if address is None else [node('img', src=address, alt='which class was taken for which'), how_to_read(
        'A row is a class: dark where its pictures were taken for the class of the column.',
        '每行为一个真实类别，颜色越深，被判为该列类别的图像越多。')]
