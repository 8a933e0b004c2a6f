"""A run's folder: ``recipe.yaml``, ``log.jsonl``, ``metrics.json``, checkpoints, examples and ``report.html``."""
import json
import os
from pathlib import Path

from hcma.errors import InputError
from hcma.recipe_io import dump_recipe, load_recipe

LOG, METRICS, RECIPE = 'log.jsonl', 'metrics.json', 'recipe.yaml'
# What may differ when a run is resumed: it changes how the run is carried out, not what it computes.
FREE_ON_RESUME = {('data', 'train'), ('data', 'workers'), ('data', 'prefetch'), ('train', 'checkpoint_every'),
                  ('train', 'keep_checkpoints'), ('evaluate',), ('name',), ('model', 'image', 'recompute'),
                  ('model', 'text', 'recompute'), ('model', 'weights'), ('stability',), ('distill', 'teacher'),
                  ('train', 'compile_cache')}


def open_run(run_dir, recipe, resume):
    """Create the folder of a run, or check that ``recipe`` continues the run that is there."""
    run_dir = Path(run_dir)
    stored = run_dir / RECIPE
    if stored.exists() and not resume:
        raise InputError(f'{run_dir}: holds a run already; pass --resume to continue it, or another --out')
    if stored.exists():
        _require_same(load_recipe(stored), recipe, run_dir)
    try:
        (run_dir / 'checkpoints').mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f'{run_dir}: cannot be written ({error.strerror}); choose another --out') from None
    return run_dir


def begin_run(run_dir, recipe, step):
    """Write what is known once nothing stands in the way of going on from ``step``: the recipe, and a log up to it."""
    _replace(run_dir / RECIPE, dump_recipe(recipe))
    truncate_log(run_dir, step)


def run_of(path):
    """The folder of the run that ``path``, the run itself or one of its checkpoints, belongs to."""
    path = Path(path)
    return path.parent.parent if path.parent.name == 'checkpoints' else path


def truncate_log(run_dir, step):
    """Drop the lines beyond ``step``: a killed run may have logged more than its last checkpoint holds.

    Of an event it counts when it was noticed; one without a step belongs to the step before it.
    """
    path = Path(run_dir) / LOG
    if not path.exists():
        return
    kept, latest = [], 0
    for line in path.read_text(encoding='utf-8').splitlines():
        latest = _step(line, latest)
        if latest <= step:
            kept.append(line + '\n')
    _replace(path, ''.join(kept))


def update_metrics(run_dir, **sections):
    """Merge ``sections`` into the run's ``metrics.json``."""
    path = Path(run_dir) / METRICS
    try:
        metrics = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        metrics = {}
    metrics.update(sections)
    _replace(path, json.dumps(metrics, indent=1, ensure_ascii=False))


def _replace(path, text):
    """Put ``text`` into the file ``path``, which is never seen half-written."""
    partial = path.with_suffix('.partial')
    partial.write_text(text, encoding='utf-8')
    os.replace(partial, path)


def _step(line, latest):
    try:
        row = json.loads(line)
    except ValueError:
        return float('inf')  # a line that a killed run wrote in part
    return row.get('noticed', row.get('step', latest))


def _require_same(old, new, run_dir):
    for path, before, after in _differences(old.model_dump(), new.model_dump()):
        if not any(path[:len(free)] == free for free in FREE_ON_RESUME):
            raise InputError(f'{run_dir}: its recipe has {".".join(path)} = {before!r}, now it is {after!r}; '
                             'resume with the same recipe, or start another run')


def _differences(old, new, path=()):
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, path + (key,))
        elif before != after:
            yield path + (key,), before, after
