"""The curves of training as a part of the page."""
import math

import numpy as np

from hcma.report.curves import Curve, draw, smoothing_window
from hcma.report.markup import chinese, how_to_read, level_label, missing, node, number, section
from hcma.report.pictures import data_address

TRAIN = '.venv/bin/python tools/train.py CONFIG.yaml --set data.train=DATA --out RUN'
TOTAL_COLOUR = '#1e293b'
LEVEL_COLOURS = ('#2563eb', '#ea580c', '#059669', '#7c3aed', '#db2777', '#0891b2')
SMALL = (2.7, 1.75)  # inches


def training_section(log):
    """Loss and temperatures large, what steers the step small, and the events marked on them."""
    if log is None or not len(log.steps):
        return section('training', 'Training', '训练过程', missing('training log', TRAIN))
    kinds = event_kinds(log.events)
    marks = [(str(place), [event['step'] for event in events]) for place, events in enumerate(kinds.values(), 1)]
    large = [drawn(log, marks) for drawn in (loss_figure, temperature_figure, weight_figure)]
    window = smoothing_window(len(log.steps))
    return section(
        'training', 'Training', '训练过程', node('div', [drawn for drawn in large if drawn is not None], class_='large'),
        node('div', small_figures(log), class_='small'), event_list(kinds), how_to_read(
            f'Pale lines are the steps themselves, strong ones their mean over {window} steps; the numbers on top are '
            'the events listed here. A healthy loss falls and flattens.',
            f'浅色线为逐步数值，深色线为 {window} 步滑动平均；顶部数字对应此处列出的事件。正常的损失先下降后趋平。'),
        log_note(log))


def loss_figure(log, marks):
    """The loss and the loss of every level."""
    named = [('loss', ['total ', chinese('总计')], TOTAL_COLOUR)]
    named += [(f'loss_{level}', level_label(level), colour) for level, colour in level_colours(log)]
    return figure(log, 'Loss', '损失', named, marks=marks, is_noisy=True)


def temperature_figure(log, marks):
    """exp of the learned log-scale of every level."""
    named = [(f'scale_{level}', level_label(level), colour) for level, colour in level_colours(log)]
    return figure(log, 'Temperature scale, 1 / τ', '温度系数 1 / τ', named, marks=marks, sentence=(
        'Higher means that small differences of similarity count more; 100 is the ceiling.',
        '越高则相似度的细微差别越重要；上限为 100。'))


def weight_figure(log, marks):
    """The weight of every term of the loss, where it is learned."""
    named = [(f'weight_{term}', level_label(term), colour) for term, colour in level_colours(log)]
    return figure(log, 'Learned weights', '学习到的权重', named, marks=marks, sentence=(
        'A term that is hard to reduce is given less weight.', '越难降低的一项，权重越小。'))


def small_figures(log):
    """What steers the step: learning rate, gradient norm, loss scale; and the speed."""
    overflow = log.columns.get('overflow')
    skipped = log.steps[overflow > 0] if overflow is not None else ()
    figures = [figure(log, 'Learning rate', '学习率', [('lr', None, '#475569')], size=SMALL),
               figure(log, 'Right answers in the batch', '批内正确率', [('accuracy', None, '#475569')], size=SMALL,
                      is_noisy=True),
               figure(log, 'Gradient norm', '梯度范数', [('grad_norm', None, '#475569')], size=SMALL, is_noisy=True,
                      y_scale='log'),
               figure(log, 'Loss scale', '损失缩放', [('loss_scale', None, '#475569')], size=SMALL, y_scale='log2',
                      ticks=skipped, sentence=('A red tick is a step skipped for overflow.', '红色刻度为因溢出而跳过的步。')),
               figure(log, 'Images per second', '每秒图像数', [('images_per_s', None, '#475569')], size=SMALL,
                      is_noisy=True),
               figure(log, 'Device computes, share of time', '设备计算时间占比', [('utilisation', None, '#475569')],
                      size=SMALL, is_noisy=True)]
    return [drawn for drawn in figures if drawn is not None]


def figure(log, title, title_zh, named, sentence=None, is_noisy=False, **drawing):
    """A figure of the columns ``named`` (column, label, colour); ``None`` when the log has none of them."""
    found = [(Curve(log.steps, log.columns[key], colour, is_noisy), label) for key, label, colour in named
             if key in log.columns and np.isfinite(log.columns[key]).any()]
    if not found:
        return None
    svg = draw([curve for curve, _ in found], **drawing)
    legend = [node('span', node('i', style=f'background:{curve.colour}'), label, ' ', number(last(curve), 3))
              for curve, label in found if label is not None]
    return node('figure', node('h3', title, ' ', chinese(title_zh)), node('div', legend, class_='legend') if legend
                else None, node('img', src=data_address(svg, 'image/svg+xml'), alt=f'{title} over training steps'),
                how_to_read(*sentence) if sentence else None)


def last(curve):
    """The last finite value of a curve."""
    return float(curve.finite().values[-1])


def level_colours(log):
    """Each level with its colour, the same one in every figure."""
    return [(level, LEVEL_COLOURS[place % len(LEVEL_COLOURS)]) for place, level in enumerate(log.level_names())]


def event_kinds(events):
    """The events by name, in the order of their first step."""
    kinds = {}
    for event in sorted(events, key=lambda event: event['step']):
        kinds.setdefault(str(event['event']), []).append(event)
    return kinds


def event_list(kinds):
    """The legend of the numbers on the curves."""
    if not kinds:
        return None
    return node('ol', [node('li', node('b', name.replace('_', ' ')), ' ', event_text(events))
                       for name, events in kinds.items()], class_='events')


def event_text(events):
    """Where a kind of event happened, and what else is known of it when it is rare."""
    steps = [f'{event["step"]:,}' for event in events]
    if len(events) > 3:
        return f'{len(events)} times, steps {steps[0]} to {steps[-1]}'
    details = [', '.join(f'{key} {plain(value)}' for key, value in event.items() if key not in ('event', 'step'))
               for event in events]
    return '; '.join(f'step {step}' + (f' ({detail})' if detail else '') for step, detail in zip(steps, details))


def plain(value):
    """A logged value in few characters."""
    return f'{value:.4g}' if isinstance(value, float) and math.isfinite(value) else str(value)


def log_note(log):
    """How many lines of the log could not be read, if any."""
    if not log.unreadable:
        return None
    return node('p', f'Unreadable lines of log.jsonl, left out: {log.unreadable}.', class_='missing')
