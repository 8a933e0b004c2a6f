"""What a run directory holds, read into one object; whatever is missing is ``None`` or empty."""
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hcma.errors import InputError

COSINE = 'cosine'  # what heat is where its example does not say
TEACHER = 'teacher/examples'  # in the examples of a student


@dataclass(frozen=True)
class Log:
    """The training log by columns: ``columns[key][i]`` belongs to ``steps[i]``, NaN where a line lacks the key."""
    steps: np.ndarray
    columns: dict
    events: list
    unreadable: int

    def level_names(self):
        """The levels that have a loss or a temperature, in the order of the log."""
        names = [key.removeprefix('loss_') for key in self.columns if key.startswith('loss_') and key != 'loss_scale']
        names += [key.removeprefix('scale_') for key in self.columns if key.startswith('scale_')]
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Run:
    """Everything the page may show of a run."""
    name: str
    examples_dir: Path
    recipe: str | None
    log: Log | None
    metrics: dict
    comparison: list
    heatmaps: list
    attention: list
    retrieval: dict
    choices: list


def read_run(run_dir):
    """Read the run directory. Raises ``InputError`` naming the file that is not what it should be."""
    root = Path(run_dir)
    if not root.is_dir():
        raise InputError(f'{root}: no such run directory; tools/train.py makes one with --out')
    examples = root / 'examples'
    return Run(name=root.resolve().name, examples_dir=examples,
               recipe=read_text(root / 'recipe.yaml'), log=read_log(root / 'log.jsonl'),
               metrics=read_json(root / 'metrics.json', dict),
               comparison=list_of_dicts(read_json(examples / 'comparison.json', dict).get('rows')),
               heatmaps=read_maps(examples, 'heatmaps.json'), attention=read_maps(examples, 'attention.json'),
               retrieval=read_json(examples / 'retrieval.json', dict),
               choices=list_of_dicts(read_json(examples / 'choices.json', list)))


def read_maps(examples, name):
    """The heat maps of a file; of a student each caption's is followed by the teacher's of the same caption."""
    own = list_of_dicts(read_json(examples / name, list))
    taught = list_of_dicts(read_json(examples / TEACHER / name, list))
    if not taught:
        return own
    both = []
    for caption in dict.fromkeys(str(example.get('caption')) for example in own):
        for side, maps, folder in (('student', own, ''), ('teacher', taught, f'{TEACHER}/')):
            both += [{**example, 'image': f'{folder}{example.get("image")}',
                      'name': f'{side}, {example.get("name", COSINE)}'}
                     for example in maps if str(example.get('caption')) == caption]
    return both


def read_text(path):
    """The file's text, or ``None`` without the file."""
    try:
        return path.read_text(encoding='utf-8-sig', errors='replace')
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from error


def read_json(path, kind):
    """The file's JSON value, an instance of ``kind``; an empty one without the file."""
    text = read_text(path)
    if text is None:
        return kind()
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f'{path}: not JSON ({error}); delete it or evaluate again') from error
    if not isinstance(value, kind):
        expected = 'an object' if kind is dict else 'a list'
        raise InputError(f'{path}: holds {type(value).__name__}, expected {expected}; delete it or evaluate again')
    return value


def read_log(path):
    """The log by columns, or ``None`` without the file.

    A killed run may leave half a line: such lines are counted, not fatal. Of a step logged twice (a run resumed from
    an earlier checkpoint) the last line stands.
    """
    text = read_text(path)
    if text is None:
        return None
    rows, events, unreadable, latest = {}, [], 0, 0
    for line in filter(str.strip, text.split('\n')):
        row = parse_line(line)
        if row is None:
            unreadable += 1
        elif 'event' in row:
            events.append({**row, 'step': whole_number(row.get('step'), latest)})
        elif whole_number(row.get('step')) is None:
            unreadable += 1
        else:
            latest = int(row['step'])
            rows[latest] = row
    steps = sorted(rows)
    keys = dict.fromkeys(key for row in rows.values() for key in row)
    columns = {key: np.array([as_float(rows[step].get(key)) for step in steps]) for key in keys}
    return Log(np.array(steps, dtype=np.int64), columns, events, unreadable)


def parse_line(line):
    """One line of the log as a dict, or ``None``."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def whole_number(value, default=None):
    """``value`` as an int, or ``default`` when it is not a finite number."""
    value = as_float(value)
    return int(value) if math.isfinite(value) else default


def as_float(value):
    """``value`` as a float; NaN when it is not a number. True and false count as 1 and 0."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def as_dict(value):
    """``value`` if it is a dict, else an empty one: a part of a hand-edited file may be missing or null."""
    return value if isinstance(value, dict) else {}


def several_levels(levels):
    """The levels without their sum; none when there is only one, which says the same as the sum."""
    parts = {level: as_dict(values) for level, values in as_dict(levels).items() if level != 'weighted'}
    return parts if len(parts) > 1 else {}


def list_of_dicts(value):
    """The dicts in ``value`` if it is a list, else nothing."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
