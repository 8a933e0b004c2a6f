"""Bytes of a training step on one of several devices, part by part, and whether they fit."""
from dataclasses import dataclass, fields
from typing import Optional

from hcma.plan import cpu
from hcma.plan.activations import Held, encoder
from hcma.plan.levels import features, fusion, gathered, projections, samples, scores, towers
from hcma.plan.parameters import linears, parts

GIB = 2 ** 30
# What a card keeps back: its runtime, communication, and what lies unused between buffers. An assumption.
RESERVED = 0.08
# With micro-batches, and on many devices, the scores of a level are made block by block, in at most so many bytes.
SCORE_BLOCK = 2 ** 28
_SIZES = {'fp32': 4, 'fp16': 2, 'bf16': 2}  # bytes of a number


@dataclass(frozen=True)
class Setting:
    """How a recipe is carried out.

    ``compute`` 'recipe' is what hcma does: products in the types of the recipe's section ``precision``, weights in
    float32. fp32, fp16 and bf16 are the type of products, activations and weights; with a 16-bit type trained weights
    have float32 ``masters``, or not. The ``optimizer`` state (moments, masters) is on the 'device', 'sharded' over all
    ``devices`` with each parameter's on one, or on the 'host'. Micro-batches of None are whole batches, the encoders
    together in one graph.
    """
    device: str = 'ascend-910b'
    compute: str = 'recipe'
    masters: bool = True
    optimizer: str = 'device'
    devices: int = 1
    image_micro_batch: Optional[int] = None
    text_micro_batch: Optional[int] = None


@dataclass(frozen=True)
class Needs:
    """Bytes on one device, by what they are for."""
    weights: float
    masters: float
    gradients: float
    optimizer: float
    image: float
    text: float
    features: float
    loss: float
    workspace: float

    @property
    def total(self):
        """Bytes at the peak."""
        return sum(getattr(self, field.name) for field in fields(self))

    def fits(self, usable):
        """Whether ``usable`` bytes are enough."""
        return self.total <= usable


def setting_of(recipe, **options):
    """The ``Setting`` of a recipe: its micro-batches, whether its optimizer is sharded, and ``options``."""
    given = {name: getattr(recipe.train, name, None) for name in ('image_micro_batch', 'text_micro_batch')}
    if recipe.train.shard_optimizer:
        given['optimizer'] = 'sharded'
    return Setting(**{**given, **options})


def usable(setting, memory):
    """The bytes of a device of ``memory`` bytes that a step may fill."""
    return memory - cpu.BASELINE if setting.device == 'cpu' else memory * (1 - RESERVED)


def needs(recipe, setting):
    """The ``Needs`` on each device of one training step of ``recipe``, whose batch all devices share."""
    recipe = on_each(recipe, setting.devices)
    return Needs(**cpu.needs(recipe, setting)) if setting.device == 'cpu' else _on_card(recipe, setting)


def on_each(recipe, devices):
    """The ``recipe`` with the part of its batch that each of ``devices`` has."""
    share = {'batch_size': max(1, recipe.train.batch_size // devices)}
    return recipe.model_copy(update={'train': recipe.train.model_copy(update=share)})


def activations(recipe, setting, recompute=True):
    """Bytes that the encoders hold for the backward pass, {'image': ..., 'text': ...}."""
    batches = {'image': setting.image_micro_batch, 'text': setting.text_micro_batch}
    return {name: _activations(recipe, name, batches[name] or samples(recipe)[name], setting, recompute)
            for name in batches}


def _on_card(recipe, setting):
    size, sizes = _SIZES.get(setting.compute, 4), _sizes(recipe, setting)
    counts = parts(recipe)
    trained = sum(part.trained for part in counts)
    off, largest, kept = setting.optimizer == 'host', max(part.largest for part in counts), trained
    if setting.optimizer == 'sharded':  # what the fullest device keeps
        kept = max(trained / setting.devices, largest)
    masters = size == 2 and setting.masters and not off
    gradient = 4 if size == 4 or masters else 2
    held = activations(recipe, setting)
    batch = recipe.train.batch_size  # of this device: its texts meet the pictures of all
    levels = _bytes(scores(recipe, batch, batch * setting.devices, False), sizes['loss'])
    staged = setting.image_micro_batch is not None or setting.text_micro_batch is not None
    if staged:  # one encoder at a time
        held[min(held, key=held.get)] = 0
    if staged or setting.devices > 1:
        levels = min(levels, SCORE_BLOCK * len(recipe.loss.levels))
    everyone = batch * setting.devices * gathered(recipe) if setting.devices > 1 else 0
    return Needs(weights=size * sum(part.total for part in counts) + _copies(recipe, setting),
                 masters=4 * kept * masters,
                 gradients=gradient * trained, optimizer=0 if off else 8 * kept,
                 features=8 * (_features(recipe) + everyone),
                 loss=levels + _bytes(fusion(recipe, batch), sizes['loss']),
                 workspace=2 * gradient * largest, **held)


def _sizes(recipe, setting):
    """Bytes of a number that products read, for each part of the model; ``auto`` is bf16 on a card."""
    return {part: _SIZES.get(setting.compute, 4 if name == 'fp32' else 2)
            for part, name in recipe.precision.types().items()}


def _copies(recipe, setting):
    """Bytes of the 16-bit copies of float32 weights that the backward pass reads."""
    if setting.compute != 'recipe':
        return 0
    sizes = _sizes(recipe, setting)
    held = [tower for name, tower, _ in towers(recipe)
            if sizes[name] == 2 and tower.train != 'frozen' and tower.recompute == 'off']
    return 2 * sum(tower.depth * sum(inputs * outputs for inputs, outputs in linears(tower)) for tower in held)


def _features(recipe):
    count = samples(recipe)
    return sum(count[name] * features(recipe, rows, tower) for name, tower, rows in towers(recipe))


def _activations(recipe, name, batch, setting, recompute):
    size = _sizes(recipe, setting)[name]
    tower, rows = {name: (tower, rows) for name, tower, rows in towers(recipe)}[name]
    whole, freed, one = encoder(recipe, tower)
    held = projections(recipe, rows, tower)
    if tower.train == 'frozen':  # forward only: nothing outlives the block it is in
        return batch * _bytes(one + held, size)
    # The backward pass of a block holds about as much again, for gradients.
    bytes_ = _bytes(whole + held + one, size) - (_bytes(freed, size) if recompute else 0)
    return batch * bytes_


def _bytes(held: Held, size):
    """In a 16-bit type a softmax is held twice, in float32 and as what the next product reads, unless it is fused."""
    return size * held.kept + 4 * held.kept_float32 + (0 if size == 2 else 2 * size * held.unfused)
