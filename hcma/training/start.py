"""Runs that start from the weights of another: what is taken, resized to the new model, or begun anew."""
import re
import sys

import numpy as np

from hcma.models.lora import is_addition, merged
from hcma.models.positions import resize_patch_positions, resize_word_positions
from hcma.training.checkpoint import MODEL, described, fill, read_arrays

# What one model may have and another not, as their levels, losses and fusion differ.
PART = re.compile(r'(fusion|(image|text)_tower\.to_\w+)\.')
IMAGE_POSITION, TEXT_POSITION = 'image_tower.encoder.position', 'text_tower.encoder.position'


def start_from(model, recipe, path):
    """Give ``model``, that of ``recipe``, the weights of a run or checkpoint; its own low-rank additions stay.

    Additions of the run are merged into its weights first. Positions are resized to the recipe's pictures and texts.
    Levels and a fusion that only one of both has are begun anew, or left out, and said. Raises ``InputError`` listing
    what else does not fit.
    """
    folder, source, _ = described(path)
    arrays = merged(read_arrays(folder / MODEL)[0], source.model.lora.alpha / source.model.lora.rank)
    parameters = {parameter.name: parameter for parameter in model.get_parameters() if not is_addition(parameter.name)}
    _resize(arrays, source.model, recipe.model)
    own = {name: parameters[name].asnumpy() for name in parameters.keys() & {'log_scale', 'bias', 'log_variance'}}
    _by_row(arrays, own, source, recipe)
    new, left = (_parts(one) - _parts(other) for one, other in ((parameters, arrays), (arrays, parameters)))
    for parts, said in ((new, 'begun anew, as they are not in'), (left, 'left out of')):
        if parts:
            print(f'note: {", ".join(sorted(parts))} {said} {folder}', file=sys.stderr)
    fill([parameter for name, parameter in parameters.items() if _part(name) not in new],
         {name: array for name, array in arrays.items() if _part(name) not in left}, folder / MODEL)
    model.clamp_scales()


def _resize(arrays, old, new):
    before, after = old.image.grid, new.image.grid
    if before != after and old.image.pool == new.image.pool:
        first = int(new.image.pool == 'class')
        arrays[IMAGE_POSITION] = resize_patch_positions(arrays[IMAGE_POSITION], before, after, first)
    arrays[TEXT_POSITION] = resize_word_positions(arrays[TEXT_POSITION], new.text.length)


def _by_row(arrays, own, source, recipe):
    """Temperatures, biases and weights of the levels that both models have; the others are the model's own."""
    for name, rows in (('log_scale', _levels), ('bias', _levels), ('log_variance', _terms)):
        stored = dict(zip(rows(source), arrays.pop(name, ())))
        if name in own:
            arrays[name] = np.array([stored.get(row, value) for row, value in zip(rows(recipe), own[name])], np.float32)


def _levels(recipe):
    return recipe.loss.levels


def _terms(recipe):
    return recipe.loss.terms(recipe.model)


def _parts(names):
    return {_part(name) for name in names} - {None}


def _part(name):
    found = PART.match(name)
    return found and found.group(1)
