"""The page as a whole: its frame, its parts in order, the settings at its end."""
from tqdm import tqdm

from hcma.report.answers import answers_questions
from hcma.report.comparison import comparison_section
from hcma.report.examples import choices_section, heatmap_section, retrieval_section
from hcma.report.markup import (chinese, document, duration, figure_of, missing, node, number, section, short_count,
                                table)
from hcma.report.pictures import Album
from hcma.report.results import results_section
from hcma.report.run_files import as_dict
from hcma.report.style import STYLE
from hcma.report.training import TRAIN, training_section

# Forbids the browser to load anything at all, should something that looks like a link ever slip in.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
PARTS = (('results', 'Results', '结果'), ('comparison', 'Comparison', '对比'), ('training', 'Training', '训练'),
         ('heatmaps', 'Where words look', '注意热图'), ('retrieved', 'Retrieved', '检索'), ('choices', 'Choices', '选择'),
         ('settings', 'Settings', '设置'))
# What a run that answers questions will never have.
OF_ALIGNMENT = ('comparison', 'heatmaps', 'retrieved', 'choices')


def page(run):
    """The HTML of a run's report."""
    album = Album(run.examples_dir)
    makers = {'results': lambda: results_section(run.metrics, album),
              'comparison': lambda: comparison_section(run.comparison),
              'training': lambda: training_section(run.log),
              'heatmaps': lambda: heatmap_section(run.heatmaps, run.attention, album),
              'retrieved': lambda: retrieval_section(run.retrieval, album),
              'choices': lambda: choices_section(run.choices, album), 'settings': lambda: settings_section(run)}
    parts = [part for part in PARTS if part[0] not in OF_ALIGNMENT or not answers_questions(run.metrics)]
    shown = tqdm(parts, desc='report', unit='part', delay=2, leave=False)
    sections = [makers[anchor]() for anchor, _, _ in shown]
    return document(node('html', head(run.name), node('body', header(run.name, parts), node('main', sections)),
                         lang='en'))


def head(name):
    """What the browser needs to know before it shows anything."""
    return node('head', node('meta', charset='utf-8'),
                node('meta', http_equiv='Content-Security-Policy', content=POLICY),
                node('meta', name_='viewport', content='width=device-width, initial-scale=1'),
                node('title', f'{name} · hcma'), node('style', STYLE))


def header(name, parts):
    """The run's name and the way to each part."""
    links = [node('a', english, ' ', chinese(translated), href=f'#{anchor}') for anchor, english, translated in parts]
    return node('header', node('p', 'hcma · report of a run ', chinese('运行报告')), node('h1', name), node('nav', links))


def settings_section(run):
    """Time, size and versions, and the recipe folded away."""
    facts = training_facts(as_dict(run.metrics.get('training'))) + environment_facts(run.metrics)
    recipe = missing('recipe', TRAIN) if run.recipe is None else node(
        'details', node('summary', 'recipe.yaml ', chinese('全部设置')), node('pre', run.recipe))
    return section('settings', 'Settings and versions', '设置与版本', table(None, facts, 'facts') if facts else
                   missing('time or versions', TRAIN), recipe)


# Shares of the training time.
TIMES = [('utilisation', 'device computes', '设备计算时间占比'), ('time_images', 'of it, encoding images', '其中图像编码'),
         ('time_texts', 'of it, encoding texts', '其中文本编码'), ('time_loss', 'of it, the loss', '其中损失计算'),
         ('time_teacher', 'of it, the teacher', '其中教师模型'), ('time_update', 'of it, the update', '其中参数更新'),
         ('time_data', 'waiting for data', '等待数据'), ('time_host', 'host between steps', '主机端步间开销')]


def training_facts(training):
    """The rows about the training that were measured."""
    rows = [('training time', '训练时间', training.get('seconds'), duration(training.get('seconds'))),
            ('steps', '步数', training.get('steps'), number(training.get('steps'), 0)),
            ('images per second', '每秒图像数', training.get('images_per_s'), number(training.get('images_per_s'))),
            *((english, translated, training.get(key), f'{100 * (figure_of(training.get(key)) or 0):.1f}%')
              for key, english, translated in TIMES),
            ('parameters', '参数量', training.get('parameters'), short_count(training.get('parameters')))]
    return [[[english, ' ', chinese(translated)], shown] for english, translated, value, shown in rows
            if figure_of(value) is not None]


def environment_facts(metrics):
    """The versions, one a row, as the evaluation wrote them."""
    return [[str(key), str(value)] for key, value in as_dict(metrics.get('environment')).items()]
