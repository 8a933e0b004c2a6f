"""HTML as a tree of nodes: every text and attribute is escaped by the standard library when the tree is written."""
import math
from xml.etree import ElementTree

MINUS = '\N{MINUS SIGN}'
NOTHING = '\N{EM DASH}'


def node(name, *children, **attributes):
    """An element. Children are elements, texts, lists of those, or ``None``.

    ``class_='a'`` gives ``class="a"``; attributes that are ``None`` are left out.
    """
    named = {key.rstrip('_').replace('_', '-'): str(value) for key, value in attributes.items() if value is not None}
    element = ElementTree.Element(name, named)
    append(element, children)
    return element


def append(element, children):
    """Append children as ``node`` takes them."""
    for child in children:
        if isinstance(child, (list, tuple)):
            append(element, child)
        elif ElementTree.iselement(child):
            element.append(child)
        elif child is not None and len(element):
            element[-1].tail = (element[-1].tail or '') + str(child)
        elif child is not None:
            element.text = (element.text or '') + str(child)


def document(root):
    """The text of an HTML document."""
    return '<!doctype html>\n' + ElementTree.tostring(root, encoding='unicode', method='html') + '\n'


def section(anchor, title, title_zh, *children):
    """A part of the page under its heading in two languages."""
    return node('section', node('h2', title, ' ', chinese(title_zh)), *children, id=anchor)


def subheading(title, title_zh):
    """A smaller heading in two languages."""
    return node('h3', title, ' ', chinese(title_zh))


def chinese(text):
    """Chinese beside its English, in smaller type."""
    return node('small', text, lang='zh-CN')


def how_to_read(text, text_zh):
    """The sentence that says how a figure or table is read."""
    return node('p', text, node('span', text_zh, lang='zh-CN'), class_='how')


def missing(what, command):
    """The sentence in place of a missing part."""
    return node('p', f'No {what} yet; this makes them: ', node('code', command), class_='missing')


def table(header, rows, class_=None):
    """A table that scrolls sideways on a narrow screen.

    ``rows`` are lists of cells or of cell contents, or rows made by ``table_row``; ``header`` may be ``None``.
    """
    head = node('thead', node('tr', [as_cell(cell, 'th') for cell in header])) if header else None
    body = node('tbody', [row if ElementTree.iselement(row) else table_row(row) for row in rows])
    return node('div', node('table', head, body, class_=class_), class_='scroll')


def table_row(cells, class_=None):
    """One row of a table; its first cell is its heading."""
    first, *others = cells
    return node('tr', as_cell(first, 'th'), [as_cell(cell, 'td') for cell in others], class_=class_)


def as_cell(content, name):
    """``content`` itself if it is a cell already, else a cell around it."""
    is_cell = ElementTree.iselement(content) and content.tag in ('td', 'th')
    return content if is_cell else node(name, content)


def figure_of(value):
    """``value`` as a finite float, or ``None`` when it is anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def number(value, digits=1, signed=False):
    """A number rounded for the eye that carries its exact value for machines; a dash when there is none."""
    exact = figure_of(value)
    if exact is None:
        return node('span', NOTHING, class_='nothing')
    text = f'{exact:{"+" if signed else ""},.{digits}f}'
    if not text.strip('+-0.,'):
        text = text.lstrip('+-')
    return node('data', text.replace('-', MINUS), value=repr(value))


def bar(value, digits=1):
    """A cell with a percentage over a bar of that length."""
    exact = figure_of(value)
    if exact is None:
        return node('td', number(value))
    share = min(max(exact, 0), 100)
    return node('td', number(value, digits), class_='bar', style=f'--share:{share:.1f}%')


def duration(seconds):
    """Seconds as people say them."""
    exact = figure_of(seconds)
    if exact is None:
        return NOTHING
    if exact < 60:
        return f'{exact:.1f} s'
    minutes, rest = divmod(round(exact), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours} h {minutes:02d} min' if hours else f'{minutes} min {rest:02d} s'


def short_count(count):
    """A large count with its unit: 1.24 M."""
    exact = figure_of(count)
    if exact is None:
        return NOTHING
    for limit, unit in ((1e9, 'G'), (1e6, 'M'), (1e4, 'k')):
        if exact >= limit:
            return f'{exact / (1e3 if unit == "k" else limit):.3g} {unit}'
    return f'{exact:,.0f}'


LEVELS_ZH = {'sentence_global': '句子–全图', 'word_patch': '词–图块', 'phrase_region': '短语–区域', 'weighted': '加权和',
             'matching': '匹配', 'reranked': '重排'}
LEVELS = {'sentence_global': 'sentence–global', 'word_patch': 'word–patch', 'phrase_region': 'phrase–region',
          'weighted': 'weighted sum', 'reranked': 're-ranked'}


def level_label(level):
    """A level's name for the eye, in two languages where there are two."""
    english = LEVELS.get(level, level.replace('_', ' '))
    return [english, ' ', chinese(LEVELS_ZH[level])] if level in LEVELS_ZH else [english]
