"""Checkpoints: folders that appear whole or not at all, and hold all it takes to use a model or to go on training it.

``model.safetensors`` the weights, ``recipe.yaml``, ``tokenizer.json``, and ``state.safetensors`` what only training
needs: moments, step counts, loss scale, and as its metadata the number of batches seen and the data's fingerprint.
"""
import json
import re
import shutil
from pathlib import Path

from mindspore import Tensor, dtype_to_nptype, ops
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hcma.data.questions import Answers
from hcma.data.tokenizer import load_tokenizer
from hcma.data.whole import appearing_folder
from hcma.distributed import is_first
from hcma.errors import InputError
from hcma.models.hcma import build_model
from hcma.models.vqa import build_vqa
from hcma.recipe_io import dump_recipe, load_recipe
from hcma.training.sharding import moments_of_all, names_elsewhere

MODEL, STATE, RECIPE, TOKENIZER = 'model.safetensors', 'state.safetensors', 'recipe.yaml', 'tokenizer.json'
ANSWERS = 'answers.json'
_NAME = re.compile(r'step_(\d{8})')


def save_checkpoint(folder, step_cell, recipe, tokenizer, progress, files=None):
    """Write checkpoint ``folder``; ``progress`` is a dict that comes back from ``load_state``.

    ``files`` are further files by name, such as a VQA run's answers. Every rank must call it; the first one writes.
    """
    moments = moments_of_all(step_cell.optimizer)
    if not is_first():
        return
    model, state = step_cell.network.model, {**_arrays(_state(step_cell)), **moments}
    # One entry: safetensors writes several in an order that changes from save to save.
    metadata = {'progress': json.dumps(progress)}
    with appearing_folder(folder, True, MODEL) as partial:
        _write(Path(partial), _arrays(model.get_parameters()), recipe, tokenizer)
        save_file(state, Path(partial) / STATE, metadata=metadata)
        for name, text in (files or {}).items():
            (Path(partial) / name).write_text(text, encoding='utf-8')


def write_checkpoint(folder, arrays, recipe, tokenizer, overwrite=False):
    """Write checkpoint ``folder`` of the weights ``arrays`` {name: array}: to use or start from, not to resume."""
    with appearing_folder(folder, overwrite, MODEL) as partial:
        _write(Path(partial), arrays, recipe, tokenizer)


def _write(folder, arrays, recipe, tokenizer):
    save_file(arrays, folder / MODEL)
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding='utf-8')
    (folder / TOKENIZER).write_text(tokenizer.to_json(), encoding='utf-8')


def load_model(folder):
    """The (model, recipe, tokenizer) of a checkpoint, or of a run's last checkpoint."""
    folder, recipe, tokenizer = described(folder)
    if recipe.vqa is not None:
        raise InputError(f'{folder}: answers questions (evaluate it with --task vqa); here an alignment run is needed, '
                         f'such as {recipe.vqa.checkpoint}, which it began with')
    model = build_model(recipe, tokenizer.vocab_size)
    restore(model.get_parameters(), folder / MODEL)
    model.clamp_scales()
    model.set_train(False)
    return model, recipe, tokenizer


def load_vqa(folder):
    """The (model, recipe, tokenizer, answers) of a VQA run's checkpoint, or of its last one."""
    folder, recipe, tokenizer = described(folder)
    if recipe.vqa is None:
        raise InputError(f'{folder}: an alignment run, which answers no questions; train a head on it first '
                         f'(recipes/configs/vqa_scenes.yaml with vqa.checkpoint={folder})')
    try:
        answers = Answers.from_json((folder / ANSWERS).read_text(encoding='utf-8'))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f'{folder / ANSWERS}: cannot be read ({error}); take another checkpoint') from None
    model = build_vqa(recipe, build_model(recipe, tokenizer.vocab_size), len(answers.words))
    restore(model.get_parameters(), folder / MODEL)
    model.set_train(False)
    return model, recipe, tokenizer, answers


def described(folder):
    """The (folder, recipe, tokenizer) of a checkpoint, or of a run's last checkpoint."""
    folder = resolve_checkpoint(folder)
    recipe = load_recipe(folder / RECIPE)
    return folder, recipe, load_tokenizer(folder / TOKENIZER, recipe.model.text.length, **recipe.model.text.framing)


def load_state(folder, step_cell):
    """Put the weights and the training state of checkpoint ``folder`` into ``step_cell``; returns its ``progress``."""
    weights, _ = read_arrays(folder / MODEL)
    arrays, metadata = read_arrays(folder / STATE)
    elsewhere = names_elsewhere(step_cell.optimizer)
    arrays = {name: array for name, array in arrays.items() if name not in elsewhere}
    fill(step_cell.network.model.get_parameters(), weights, folder / MODEL, in_place=True)
    fill(_state(step_cell), arrays, folder / STATE, in_place=True)
    return json.loads(metadata['progress'])


def checkpoints(run_dir):
    """The whole checkpoints of a run, oldest first."""
    folder = Path(run_dir) / 'checkpoints'
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found)


def checkpoint_step(path):
    """After how many batches the checkpoint ``path`` was written."""
    return int(_NAME.fullmatch(path.name)[1])


def checkpoint_path(run_dir, step):
    """Where the checkpoint after ``step`` batches belongs."""
    return Path(run_dir) / 'checkpoints' / f'step_{step:08d}'


def keep_newest(run_dir, count):
    """Remove all but the newest ``count`` checkpoints; a half-removed one no longer has a checkpoint's name."""
    for left in (Path(run_dir) / 'checkpoints').glob('.step_*'):  # by a run that was killed while it wrote or removed
        shutil.rmtree(left)
    for path in checkpoints(run_dir)[:-count]:
        doomed = path.with_name(f'.{path.name}.old')
        path.rename(doomed)
        shutil.rmtree(doomed)


def resolve_checkpoint(path):
    """``path`` itself if it is a checkpoint, else the newest one of the run ``path``; raises ``InputError``."""
    path = Path(path)
    if (path / MODEL).is_file():
        return path
    found = checkpoints(path)
    if not found:
        raise InputError(f'{path}: neither a checkpoint nor a run with one; train first with tools/train.py '
                         f'RECIPE --out {path}')
    return found[-1]


def restore(parameters, path):
    """Fill ``parameters`` from the safetensors file ``path``: every name, shape and type must match.

    Returns the file's metadata. Raises ``InputError`` listing what does not fit.
    """
    arrays, metadata = read_arrays(path)
    fill(parameters, arrays, path)
    return metadata


def read_arrays(path):
    """The arrays {name: array} and the metadata of a safetensors file."""
    try:
        with safe_open(path, 'numpy') as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise InputError(f'{path}: cannot be read ({error}); take another checkpoint') from None


def fill(parameters, arrays, path, in_place=False):
    """Set all ``parameters`` from ``arrays``, which must be the same names, shapes and types, or set none.

    ``in_place`` is for those of a graph that has run: with new memory it does not go on as from these values (MindSpore
    2.10 on CPU; a rolled-back run kept moments that its updates never reached).
    """
    parameters = {parameter.name: parameter for parameter in parameters}
    wrong = [f'{name} is missing' for name in sorted(parameters.keys() - arrays.keys())]
    wrong += [f'{name} is not in this model' for name in sorted(arrays.keys() - parameters.keys())]
    arrays = {name: arrays[name] for name in sorted(arrays.keys() & parameters.keys())}
    for name, array in arrays.items():
        expected = parameters[name].shape
        if array.shape != tuple(expected):
            wrong.append(f'{name} has shape {array.shape}, the model wants {tuple(expected)}')
        elif array.dtype != dtype_to_nptype(parameters[name].dtype):
            wrong.append(f'{name} is {array.dtype}, the model wants {parameters[name].dtype}')
    if wrong:
        more = f' and {len(wrong) - 5} more' if len(wrong) > 5 else ''
        raise InputError(f'{path}: does not fit the model: {"; ".join(wrong[:5])}{more}')
    for name, array in arrays.items():
        value = Tensor(array, parameters[name].dtype)
        if in_place:
            ops.assign(parameters[name], value)
        else:
            parameters[name].set_data(value)


def _arrays(parameters):
    return {parameter.name: parameter.asnumpy() for parameter in parameters}


def _state(step_cell):
    """Every parameter of the step but the model's, and the rate's factor, which the stability monitor sets."""
    left_out = {id(parameter) for parameter in step_cell.network.model.get_parameters()}
    left_out.add(id(step_cell.optimizer.lr_factor))
    return [parameter for parameter in step_cell.get_parameters() if id(parameter) not in left_out]
