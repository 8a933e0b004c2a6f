"""Questions about pictures: a JSONL of ``image``, ``question``, ``answer`` or ``answers``, ``type``, ``split``.

Needs no MindSpore. Rows that cannot be used are left out with their reason; only a file without any usable row stops.
"""
import collections
import json
import os
import sys
from dataclasses import dataclass

from hcma.data.sources.jsonl import read_rows
from hcma.data.sources.pairs import Reject, clean_caption, clean_captions
from hcma.errors import InputError

EVERY_TYPE = 'all'


@dataclass(frozen=True)
class Question:
    """One row: ``image`` is its path on disk, any of ``answers`` counts as right."""
    image: str
    text: str
    answers: tuple
    type: str
    line: int


def read_questions(path, split=None):
    """The (questions, rejects) of the JSONL ``path``, of those rows whose ``split`` is the one given, if one is.

    Raises ``InputError`` if the file cannot be read.
    """
    return read_about_images(path, _question, split)


def read_about_images(path, make, split=None):
    """What ``make(row, image path, line)`` gives of every row, and the ``Reject`` of each row where it raises
    ``ValueError`` with the reason: (list, rejects).
    """
    name, folder = os.path.basename(path), os.path.dirname(path)
    found, rejects = [], []
    for item in read_rows(path, name):
        if isinstance(item, Reject):
            rejects.append(item)
            continue
        line, row = item
        if split is not None and row.get('split') != split:
            continue
        image = row.get('image')
        try:
            if not isinstance(image, str) or not image.strip() or '\0' in image:
                raise ValueError('no path under "image"')
            found.append(make(row, os.path.join(folder, image.strip()), line))
        except ValueError as error:
            rejects.append(Reject(name, line, str(image), str(error)))
    return found, rejects


def _question(row, image, line):
    text = clean_caption(row['question']) if isinstance(row.get('question'), str) else ''
    if not text:
        raise ValueError('no text under "question"')
    values = row.get('answers', row.get('answer'))
    values = [str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
              for value in (values if isinstance(values, list) else [values])]
    answers = tuple(dict.fromkeys(answer.lower() for answer in clean_captions(values)))
    if not answers:
        raise ValueError('no text under "answer" or "answers"')
    return Question(image, text, answers, clean_caption(str(row.get('type') or EVERY_TYPE)), line)


def require_some(found, rejects, path, what, split=None):
    """Raise ``InputError`` if nothing was ``found``, else say on stderr how many rows were left out and why."""
    if not found and not rejects and split is not None:
        raise InputError(f'{path}: no row has "split" equal to {split!r}')
    where = f'{path}: ' if split is None else f'{path}, split {split!r}: '
    if not found:
        first = f' (line {rejects[0].line}: {rejects[0].reason})' if rejects else ''
        raise InputError(f'{where}no usable {what}{first}; a row is a JSON object, its image relative to the file')
    if rejects:
        kinds = collections.Counter(reject.kind for reject in rejects).most_common()
        print(f'{where}{len(rejects)} rows skipped: {", ".join(f"{count} x {kind}" for kind, count in kinds)} '
              f'(the first: line {rejects[0].line})', file=sys.stderr)


def require_questions(recipe):
    """Raise ``InputError`` unless the recipe of a VQA run names a file of questions."""
    path = recipe.data.train
    if path is None:
        raise InputError('data.train: is missing; pass --set data.train=QUESTIONS.jsonl')
    if not os.path.isfile(path):
        raise InputError(f'data.train: {path} is no file; give a JSONL of questions')


@dataclass(frozen=True)
class Answers:
    """The vocabulary, most frequent answer first, and of every type of question its most frequent answer."""
    words: tuple
    of_type: dict

    def index(self, question):
        """The number of the first of the question's answers that the vocabulary has, or None."""
        return next((self.words.index(answer) for answer in question.answers if answer in self.words), None)

    def to_json(self):
        """The text that ``from_json`` reads."""
        return json.dumps({'answers': self.words, 'of_type': self.of_type}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text):
        """The answers of ``to_json``."""
        values = json.loads(text)
        return cls(tuple(values['answers']), values['of_type'])


def most_frequent_answers(questions, most):
    """The ``Answers`` of the training ``questions``: at most ``most`` words; equals in alphabetical order."""
    kinds = collections.defaultdict(collections.Counter)
    for question in questions:
        kinds[question.type].update(question.answers)
    words = sum(kinds.values(), collections.Counter())
    return Answers(tuple(_ranked(words)[:most]), {kind: _ranked(kinds[kind])[0] for kind in sorted(kinds)})


def _ranked(counts):
    return sorted(counts, key=lambda answer: (-counts[answer], answer))
