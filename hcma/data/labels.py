"""Class names, prompt templates and labelled pictures: what classifying without training needs.

Needs no MindSpore. Names may be of any language; a label is found whatever its case, and with ``_`` for spaces.
"""
import difflib
import os
from dataclasses import dataclass

from hcma.data.sources import jsonl, tables
from hcma.data.sources.pairs import Reject, clean_caption
from hcma.data.sources.recognise import recognise
from hcma.data.sources.text import has_bad_bytes, numbered_lines
from hcma.errors import InputError

PLACE = '{}'  # in a template, of the class name


@dataclass(frozen=True)
class Labelled:
    """The picture at ``image``, of the class with the number ``label``."""
    image: str
    label: int
    line: int


class Classes:
    """The ``names`` of classes in the order of a file's lines; a line is a name, or a label, a tab and a name."""

    def __init__(self, path):
        self.path, self.names, self.numbers = path, [], {}
        for line, text in _lines(path, 'class names'):
            label, _, name = text.partition('\t')
            name = clean_caption(name or label)
            for key in {_key(label), _key(name)}:
                if self.numbers.setdefault(key, len(self.names)) != len(self.names):
                    raise InputError(f'{path}, line {line}: {name!r} is there already; give every class one line')
            self.names.append(name)
        if len(self.names) < 2:
            raise InputError(f'{path}: has one class; there must be two at least to choose from')

    def number(self, label, where):
        """The number of the class that ``label`` means; raises ``InputError`` that begins with ``where``."""
        key = _key(label)
        if key not in self.numbers:
            near = difflib.get_close_matches(key, self.numbers, 1)
            hint = f', did you mean {near[0]!r}' if near else ''
            raise InputError(f'{where} is none of the {len(self.names)} classes of {self.path}{hint}; add it there, or '
                             'leave its pictures out')
        return self.numbers[key]


def _key(label):
    return ' '.join(clean_caption(label).replace('_', ' ').split()).casefold()


def read_templates(path):
    """The templates of a file, one a line, each with ``{}`` where the class name goes; raises ``InputError``."""
    templates = []
    for line, text in _lines(path, 'templates'):
        if PLACE not in text:
            raise InputError(f'{path}, line {line}: {text!r} has no {PLACE}, where the class name goes')
        templates.append(text)
    return templates


def _lines(path, what):
    lines = [(line, text.strip()) for line, text in numbered_lines(path) if text.strip()]
    if not lines:
        raise InputError(f'{path}: is empty; give {what}, one a line')
    for line, text in lines:
        if has_bad_bytes(text):
            raise InputError(f'{path}, line {line}: is not UTF-8; save the file as UTF-8')
    return lines


def read_labelled(path, classes):
    """The (``Labelled`` pictures, rejects) of a folder with a folder for each class, or of a JSONL, CSV or TSV with
    ``image``, relative to the file, and ``label``.

    Raises ``InputError`` for a label that is no class, and where there is no picture at all.
    """
    found, rejects = _of_folders(path, classes) if os.path.isdir(path) else _of_rows(path, classes)
    if not found:
        first = f' (line {rejects[0].line}: {rejects[0].reason})' if rejects else ''
        raise InputError(f'{path}: no labelled picture{first}; give a folder with a folder for each class, or a JSONL '
                         'or CSV with image and label')
    return found, rejects


def _of_folders(path, classes):
    found = []
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.name.startswith('.') or not entry.is_dir():
            continue
        number = classes.number(entry.name, f'{path}: its folder {entry.name!r}')
        for folder, folders, names in os.walk(entry.path):
            folders.sort()
            found += [Labelled(os.path.join(folder, name), number, 0) for name in sorted(names)
                      if not name.startswith('.')]
    return found, []


def _of_rows(path, classes):
    kind, name, root = recognise(path), os.path.basename(path), os.path.dirname(path)
    if kind not in ('jsonl', 'csv'):
        raise InputError(f'{path}: is of the format {kind}; give a JSONL or CSV with image and label')
    found, rejects = [], []
    for item in (jsonl if kind == 'jsonl' else tables).read_rows(path, name):
        if isinstance(item, Reject):
            rejects.append(item)
            continue
        line, row = item
        image, label = row.get('image'), row.get('label')
        if not isinstance(image, str) or not image.strip() or type(label) not in (str, int):
            rejects.append(Reject(name, line, str(image), f'no image and label; it has {", ".join(row)}'))
            continue
        number = classes.number(str(label), f'{path}, line {line}: {label!r}')
        found.append(Labelled(os.path.join(root, image.strip()), number, line))
    return found, rejects
