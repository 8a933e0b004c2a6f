"""Curves over training steps, drawn as SVG without any words: titles and legends belong to the page."""
import io
from dataclasses import dataclass

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

MOST_POINTS = 800      # of a curve: more than a screen has pixels for
MOST_MARKS = 12        # of one kind of event: more are drawn as ticks without a line
MARK_COLOUR = '#94a3b8'
# The salt and the missing date make the same curves the same bytes.
LOOK = {'svg.hashsalt': 'hcma', 'font.size': 8.5, 'axes.spines.top': False, 'axes.spines.right': False,
        'axes.edgecolor': '#cbd5e1', 'axes.labelcolor': '#475569', 'xtick.color': '#475569', 'ytick.color': '#475569',
        'axes.grid': True, 'grid.color': '#eef2f7', 'axes.axisbelow': True}


@dataclass(frozen=True)
class Curve:
    """Values over steps, both ``(n,)``; ``is_noisy`` asks for a moving mean over the pale raw values."""
    steps: np.ndarray
    values: np.ndarray
    colour: str
    is_noisy: bool = False

    def finite(self):
        """The same curve without the steps whose value is not finite (overflows)."""
        kept = np.isfinite(self.values)
        return Curve(self.steps[kept], self.values[kept], self.colour, self.is_noisy)


def draw(curves, marks=(), size=(5.6, 2.7), y_scale='linear', ticks=()):
    """SVG bytes.

    ``marks``: ``(label, steps)`` for each kind of event; ``ticks``: steps marked red on the lower edge;
    ``size`` in inches.
    """
    with matplotlib.style.context(['default', LOOK]):
        figure = Figure(figsize=size, layout='constrained')
        axes = figure.subplots()
        for curve in curves:
            draw_curve(axes, curve)
        set_scales(axes, curves, y_scale)
        for label, steps in marks:
            draw_marks(axes, label, steps)
        axes.plot(ticks, [0.0] * len(ticks), '|', color='#dc2626', markersize=9, transform=axes.get_xaxis_transform(),
                  clip_on=False)
        content = io.BytesIO()
        figure.savefig(content, format='svg', metadata={'Date': None, 'Creator': None})
    return content.getvalue()


def draw_curve(axes, curve):
    """One curve: raw, or pale raw values under their moving mean."""
    curve = curve.finite()
    marker = 'o' if len(curve.steps) == 1 else None
    shown = thin(curve.values)
    if not curve.is_noisy:
        axes.plot(curve.steps[shown], curve.values[shown], color=curve.colour, linewidth=1.4, marker=marker)
        return
    axes.plot(curve.steps[shown], curve.values[shown], color=curve.colour, linewidth=0.6, alpha=0.3, marker=marker)
    mean = smooth(curve.values, smoothing_window(len(curve.values)))
    shown = thin(mean)
    axes.plot(curve.steps[shown], mean[shown], color=curve.colour, linewidth=1.6)


def draw_marks(axes, label, steps):
    """Numbered lines where events happened; only short ticks where there are many of a kind."""
    many = len(steps) > MOST_MARKS
    for step in steps[::-(-len(steps) // 200)] if many else steps:
        axes.axvline(step, ymax=0.03 if many else 1, color=MARK_COLOUR, linewidth=0.8, linestyle='-' if many else ':')
    for step in steps[-1:] if many else steps:
        axes.text(step, 1.0, label, transform=axes.get_xaxis_transform(), ha='center', va='center', fontsize=6.5,
                  color='white', bbox={'boxstyle': 'circle,pad=0.2', 'color': '#64748b'})


def set_scales(axes, curves, y_scale):
    """A logarithmic axis only where every value allows it."""
    values = np.concatenate([curve.finite().values for curve in curves]) if curves else np.zeros(0)
    if y_scale == 'log' and values.size and values.min() > 0:
        axes.set_yscale('log')
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter('{x:g}')
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif y_scale == 'log2' and values.size and values.min() > 0:
        axes.set_yscale('log', base=2)
    elif values.size:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=''))
    axes.set_xlabel('step')


def thin(values, most=MOST_POINTS):
    """Indices of at most ``most`` values, among them the lowest and highest of every stretch, so no spike is lost."""
    if len(values) <= most:
        return np.arange(len(values))
    stretches = np.array_split(np.arange(len(values)), most // 2)
    kept = [stretch[pick(values[stretch])] for stretch in stretches for pick in (np.argmin, np.argmax)]
    return np.unique(kept)


def smoothing_window(count):
    """How many steps the moving mean spans: a fortieth of the run."""
    return max(count // 40, 1)


def smooth(values, window):
    """Mean of each value and its neighbours within half a ``window`` on either side, fewer at both ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    first = np.maximum(index - window // 2, 0)
    end = np.minimum(index + window // 2 + 1, len(values))
    return (total[end] - total[first]) / (end - first)
