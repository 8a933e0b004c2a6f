"""The policy of precision: which type each layer of a network makes its products in.

Weights are float32 everywhere, so the optimizer's masters are the weights themselves; a layer casts what it
multiplies. Only cells with a type ``compute`` ever leave float32 (``Linear``, ``Convolution``, cosines of all pairs):
norms, softmax and its scores, normalisation, temperatures and losses have none.
"""
from fnmatch import fnmatchcase

import mindspore as ms

from hcma import backend
from hcma.errors import InputError

_TOWERS = {'image_tower': 'image', 'text_tower': 'text'}


def compute_types(precision):
    """MindSpore's type of each part, {'image': ..., 'text': ..., 'loss': ...}; see ``set_precision`` for errors."""
    return {part: backend.compute_type(name, f'precision.{part}') for part, name in precision.types().items()}


def set_precision(network, precision):
    """Give the layers of ``network`` the types of the recipe's section ``precision``; returns them, {name: type}.

    Names are those of the model's cells, such as ``image_tower.encoder.blocks.0.mlp.up``. Raises ``InputError`` for a
    type that the device does not compute in, and for a pattern of ``keep_fp32`` that names no layer.
    """
    types = compute_types(precision)
    layers = {name.removeprefix('model.'): cell for name, cell in network.cells_and_names() if hasattr(cell, 'compute')}
    for pattern in precision.keep_fp32:
        if not any(_matches(name, pattern) for name in layers):
            raise InputError(f'precision.keep_fp32: {pattern!r} names no layer; '
                             f'layers are such as {next(iter(layers))}')
    for name, layer in layers.items():
        kept = any(_matches(name, pattern) for pattern in precision.keep_fp32)
        layer.compute = ms.float32 if kept else types[_part(name)]
    return {name: layer.compute for name, layer in layers.items()}


def is_mixed(precision):
    """Whether an encoder computes in 16 bits."""
    types = compute_types(precision)
    return any(types[part] != ms.float32 for part in ('image', 'text'))


def _part(name):
    return next((part for tower, part in _TOWERS.items() if tower in name.split('.')), 'loss')


def _matches(name, pattern):
    """Whether ``pattern`` names this layer, or something that it is a part of."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern + '.*')
