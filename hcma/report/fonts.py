"""Fonts for what is drawn into pictures: matplotlib's own has no Chinese, an installed one may."""
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font


def font_of(text):
    """The path of a font that has all characters of ``text``, or None: matplotlib's, else any that is installed."""
    wanted = set(map(ord, text))
    # Last Resort, which comes with matplotlib, draws a box for everything.
    others = sorted({entry.fname for entry in fontManager.ttflist if not entry.name.startswith('Last Resort')})
    for path in (findfont(FontProperties()), *others):
        try:
            known = get_font(path).get_charmap()
        except (OSError, RuntimeError):  # a file that is no font after all
            continue
        if wanted <= known.keys():
            return path
    return None
