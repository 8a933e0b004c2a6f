"""The table of a student's report that shows it next to its teacher."""
from hcma.report.markup import chinese, figure_of, how_to_read, number, subheading, table
from hcma.report.run_files import as_dict

ROWS = [('parameters', '参数量', ('size', 'parameters'), 0),
        ('images encoded per second', '每秒编码图像数', ('size', 'images_per_s'), 1),
        ('captions encoded per second', '每秒编码描述数', ('size', 'captions_per_s'), 1),
        ('image → text R@1 %', '以图搜文 R@1', ('retrieval', 'image_to_text', 'r1'), 1),
        ('text → image R@1 %', '以文搜图 R@1', ('retrieval', 'text_to_image', 'r1'), 1),
        ('fine-grained choice %', '细粒度选择', ('choice', 'macro'), 1)]


def sides_part(sides):
    """A row for each number that both sides have; nothing of a run without a teacher."""
    rows = []
    for english, translated, keys, digits in ROWS:
        values = [_value(as_dict(sides.get(side)), keys) for side in ('teacher', 'student')]
        if None not in values:
            rows.append([[english, ' ', chinese(translated)], *[number(value, digits) for value in values]])
    if not rows:
        return None
    header = ['', ['teacher ', chinese('教师')], ['student ', chinese('学生')]]
    return [subheading('Teacher and student', '教师与学生'), table(header, rows), how_to_read(
        'Both were measured over the same data, one after the other.', '两者在相同数据上依次测得。')]


def _value(values, keys):
    for key in keys[:-1]:
        values = as_dict(values.get(key))
    return figure_of(values.get(keys[-1]))
