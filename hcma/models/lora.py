"""Low-rank additions to linear layers (Hu et al., 2022): a large model trained through a few small matrices."""
import math

import numpy as np
from mindspore import Parameter, Tensor, ops

from hcma.models.layers import Init, Linear

DOWN, UP = 'lora_down', 'lora_up'
# What the seed of the additions is joined with, so that the base is drawn as it would be without them.
ADDITIONS = 4


class LoRALinear(Linear):
    """``Linear`` with a frozen base plus ``alpha / rank * up @ down``; ``up`` starts at zero, so nothing changes yet.

    ``lora_down`` is (rank, inputs), ``lora_up`` (outputs, rank), drawn by ``additions``.
    """

    def __init__(self, inputs, outputs, init, additions, rank, alpha):
        super().__init__(inputs, outputs, init)
        self.factor = alpha / rank
        self.lora_down = additions.normal(rank, inputs, std=1 / math.sqrt(3 * inputs))
        self.lora_up = Parameter(Tensor(np.zeros((outputs, rank), np.float32)))

    def construct(self, x):
        down, up = ops.cast(self.lora_down, self.compute), ops.cast(self.lora_up, self.compute)
        return super().construct(x) + self.factor * self.product(self.product(ops.cast(x, self.compute), down), up)


def linear_of(train, lora, init):
    """``make(inputs, outputs, init)`` of the linear layers in the blocks of an encoder whose ``train`` is given."""
    if train != 'lora':
        return Linear
    additions = Init((init.seed, ADDITIONS))

    def make(inputs, outputs, init):
        return LoRALinear(inputs, outputs, init, additions, lora.rank, lora.alpha)
    return make


def freeze(encoder, train):
    """Leave to training what ``train`` says of ``encoder``: 'all', 'lora' (the additions only) or 'frozen'."""
    for parameter in encoder.get_parameters():
        parameter.requires_grad = train == 'all' or is_addition(parameter.name)


def is_addition(name):
    """Whether the parameter of this name belongs to a low-rank addition."""
    return name.rsplit('.', 1)[-1] in (DOWN, UP)


def merge_lora(model):
    """The weights of ``model`` as {name: array}, its additions merged into the weights that they are added to.

    The names are those of the same model without additions, which gives the same outputs with them.
    """
    arrays = {parameter.name: parameter.asnumpy() for parameter in model.get_parameters()}
    factors = [cell.factor for _, cell in model.cells_and_names() if isinstance(cell, LoRALinear)]
    return merged(arrays, factors[0] if factors else 0.0)


def merged(arrays, factor):
    """``arrays`` {name: array} of a model whose additions count ``factor`` times, without additions."""
    plain = {name: array for name, array in arrays.items() if not is_addition(name)}
    for name, up in arrays.items():
        prefix = name.removesuffix(UP)
        if prefix != name:
            plain[prefix + 'weight'] = plain[prefix + 'weight'] + np.float32(factor) * up @ arrays[prefix + DOWN]
    return plain
