"""What would make a recipe fit: the least change of each kind that does."""
from dataclasses import dataclass, replace
from itertools import product

from hcma.plan.memory import Needs, Setting, needs, usable
from hcma.recipe import Recipe

# From the least to the greatest change. None is what recipe and setting say already.
TRAINED = ({}, {'image': 'lora', 'text': 'lora'}, {'image': 'frozen', 'text': 'lora'},
           {'image': 'frozen', 'text': 'frozen'})
PRECISION = {'image': 'bf16', 'text': 'bf16'}
# 16 bits by the recipe, which hcma does; then what it only plans.
NUMBERS = (({}, {}), (PRECISION, {}), ({}, {'compute': 'bf16'}), ({}, {'compute': 'bf16', 'optimizer': 'host'}))
_STRICTNESS = ('all', 'lora', 'frozen')


@dataclass(frozen=True)
class Option:
    """A recipe and a setting that fit, what they change as the user would write it, what they need, and the number of
    micro-batches.
    """
    changes: tuple
    recipe: Recipe
    setting: Setting
    needs: Needs
    pieces: int


def options(recipe, setting, memory):
    """The ``Option``s that fit ``memory`` bytes, none of which does only more than another; smaller batches last."""
    batch = recipe.train.batch_size
    while batch >= 2 and batch % setting.devices == 0:
        smaller = recipe.model_copy(update={'train': recipe.train.model_copy(update={'batch_size': batch})})
        found = _options(smaller, setting, memory)
        if found:
            changes = (f'train.batch_size={batch}',) if batch != recipe.train.batch_size else ()
            return [replace(option, changes=changes + option.changes) for option in found]
        batch //= 2
    return []


def _options(recipe, setting, memory):
    found, known = [], []
    for trained, (level, (types, numbers)) in product(TRAINED, enumerate(NUMBERS)):
        candidate, changes = _trained(recipe, trained)
        candidate, shorter = _shortened(candidate, types)
        nothing_new = (trained and not changes) or (types and not shorter) or (
            numbers and replace(setting, **numbers) == setting)
        if nothing_new or ((types or numbers) and setting.device == 'cpu'):
            continue
        option = _fitted(candidate, replace(setting, **numbers), memory)
        if option is None or any(easier <= level and pieces <= option.pieces for easier, pieces in known):
            continue
        flags = tuple(f'--{key} {value}' for key, value in numbers.items())
        found.append(replace(option, changes=changes + shorter + flags + option.changes))
        known.append((level, option.pieces))
    return found


def _trained(recipe, trained):
    """The recipe with encoders trained as ``trained`` says where that is less, and the changes."""
    towers, changes = {}, ()
    for name, train in trained.items():
        tower = getattr(recipe.model, name)
        if _STRICTNESS.index(train) > _STRICTNESS.index(tower.train):
            towers[name] = tower.model_copy(update={'train': train})
            changes += (f'model.{name}.train={train}',)
    return recipe.model_copy(update={'model': recipe.model.model_copy(update=towers)}), changes


def _shortened(recipe, types):
    """The recipe with its float32 encoders in ``types``, and the changes."""
    types = {name: kind for name, kind in types.items() if getattr(recipe.precision, name) == 'fp32'}
    precision = recipe.precision.model_copy(update=types)
    return (recipe.model_copy(update={'precision': precision}),
            tuple(f'precision.{name}={kind}' for name, kind in types.items()))


def _fitted(recipe, setting, memory):
    """The largest micro-batches that fit, without recompute where that is enough; None where nothing does."""
    whole = recipe.train.batch_size // setting.devices
    for pieces, again in product((2 ** power for power in range(whole.bit_length())), (False, True)):
        if again and setting.device == 'cpu':
            continue
        candidate, changes = _recomputed(recipe) if again else (recipe, ())
        if again and not changes:
            continue
        cut, micro = _cut(setting, whole // pieces if pieces > 1 else None)
        found = needs(candidate, cut)
        if found.fits(usable(setting, memory)):
            return Option(micro + changes, candidate, cut, found, pieces)
    return None


def _cut(setting, size):
    """Micro-batches of at most ``size``, and the changes."""
    if size is None:
        return setting, ()
    names = ('image_micro_batch', 'text_micro_batch')
    micro = {name: min(size, getattr(setting, name) or size) for name in names}
    return replace(setting, **micro), tuple(f'train.{name}={value}' for name, value in micro.items()
                                            if value != getattr(setting, name))


def _recomputed(recipe):
    towers = {name: getattr(recipe.model, name).model_copy(update={'recompute': 'blocks'})
              for name in ('image', 'text')
              if getattr(recipe.model, name).recompute != 'blocks' and getattr(recipe.model, name).train != 'frozen'}
    changes = tuple(f'model.{name}.recompute=blocks' for name in towers)
    return recipe.model_copy(update={'model': recipe.model.model_copy(update=towers)}), changes
