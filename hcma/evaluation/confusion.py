"""The picture of which class was taken for which."""
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hcma.report.fonts import font_of

FILE = 'confusion.png'
MOST_NAMES = 30  # more do not fit along a side
INCHES, DPI = 6, 120


def draw_confusion(path, counts, names):
    """Write the counts (classes, classes) as a PNG: a row is a class, dark where many of its pictures were taken for
    the class of the column.

    Few classes are named, where a font has all of their characters; else they are numbered from 1, as in their file.
    """
    font = font_of(''.join(names)) if len(names) <= MOST_NAMES else None
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    with matplotlib.style.context('default'):
        figure = Figure(figsize=(INCHES, INCHES), dpi=DPI, layout='constrained')
        axes = figure.subplots()
        axes.imshow(share, cmap='Blues', vmin=0, vmax=1)
        if font is not None:
            look = {'fontproperties': FontProperties(fname=font), 'parse_math': False}
            axes.set_xticks(range(len(names)), names, rotation=90, **look)
            axes.set_yticks(range(len(names)), names, **look)
        else:
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(integer=True))
                axis.set_major_formatter(FuncFormatter(lambda place, _: f'{place + 1:.0f}'))
        figure.savefig(path)
