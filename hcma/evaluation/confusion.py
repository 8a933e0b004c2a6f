"""The picture of which class was taken for which."""
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter, MaxNLocator

FILE = 'confusion.png'
MOST_NAMES = 30  # more do not fit along a side
INCHES, DPI = 6, 120


def draw_confusion(path, counts, names):
    """Write the counts (classes, classes) as a PNG: a row is a class, dark where many of its pictures were taken for
    the class of the column.

    Classes are named where all names can be drawn, else they are numbered from 1 in the order of their file.
    """
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    with matplotlib.style.context('default'):
        figure = Figure(figsize=(INCHES, INCHES), dpi=DPI, layout='constrained')
        axes = figure.subplots()
        axes.imshow(share, cmap='Blues', vmin=0, vmax=1)
        if len(names) <= MOST_NAMES and _can_be_drawn(names):
            axes.set_xticks(range(len(names)), names, rotation=90)
            axes.set_yticks(range(len(names)), names)
        else:
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(integer=True))
                axis.set_major_formatter(FuncFormatter(lambda place, _: f'{place + 1:.0f}'))
        figure.savefig(path)


def _can_be_drawn(names):
    """Whether matplotlib's font has all characters of ``names`` and none is markup: the usual one has no Chinese."""
    known = get_font(findfont(FontProperties())).get_charmap()
    return all(ord(character) in known and character not in '$\\' for name in names for character in name)
