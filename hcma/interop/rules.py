"""What becomes of which tensor: one table of rules for each layout of weights, read in either direction."""
import re
from dataclasses import dataclass, field

import numpy as np

from hcma.errors import InputError

SHOWN = 12
# Position ids that older exports store: a count from 0, which nothing is learnt of.
BUFFERS = re.compile(r'(.*\.)?(position_ids|attn_mask)$')


@dataclass(frozen=True)
class Rule:
    """The parameter ``name`` of hcma is made of the tensors ``sources`` as ``form`` (of ``FORMS``) says."""
    name: str
    sources: tuple
    form: str = 'same'


@dataclass
class Layout:
    """How one project stores a model: its ``title``, the sections of a recipe that describes it, and its rules.

    ``scale`` and ``bias`` name the tensors of the logits' scale and, with a sigmoid loss, their bias. ``constants`` are
    parameters of hcma that no tensor stands for, ``buffers`` names of tensors that nothing was learnt of.
    """
    title: str
    image: dict
    text: dict
    embed_width: int
    rules: list
    scale: str = 'logit_scale'
    bias: str = None
    constants: dict = field(default_factory=dict)
    buffers: tuple = ()

    def sources(self):
        """The names of all tensors that are read."""
        extra = [name for name in (self.scale, self.bias) if name is not None]
        return [name for rule in self.rules for name in rule.sources] + extra


def _patch(arrays):
    return arrays[0].transpose(0, 2, 3, 1).reshape(len(arrays[0]), -1)


def _unpatch(array, parts):
    side = round((array.shape[1] / 3) ** 0.5)
    return [array.reshape(-1, side, side, 3).transpose(0, 3, 1, 2)]


# For each form: tensors to a parameter, and (but where something is lost) a parameter to so many tensors.
FORMS = {
    'same': (lambda arrays: arrays[0], lambda array, parts: [array]),
    'stacked': (np.concatenate, np.split),
    'transposed': (lambda arrays: arrays[0].T, lambda array, parts: [array.T]),
    'patch': (_patch, _unpatch),  # a convolution (D, 3, p, p) to a product (D, p p 3)
    'rows': (lambda arrays: arrays[0][None], lambda array, parts: [array[0]]),
    'row': (lambda arrays: arrays[0].reshape(1, 1, -1), lambda array, parts: [array.reshape(-1)]),
    'first third': (lambda arrays: arrays[0][:len(arrays[0]) // 3], None),
    'other thirds': (lambda arrays: arrays[0][len(arrays[0]) // 3:], None),
    # BERT adds the type of a text to every position, and here every text is of the first.
    'positions of type 0': (lambda arrays: arrays[0][None] + arrays[1][0], None),
}


def linear(name, *templates):
    """Rules of the linear layer ``name``; templates have a place for 'weight' or 'bias'."""
    form = 'stacked' if len(templates) > 1 else 'same'
    return [Rule(f'{name}.{part}', tuple(template.format(part) for template in templates), form)
            for part in ('weight', 'bias')]


def norm(name, template):
    """Rules of the layer norm ``name``."""
    return [Rule(f'{name}.gamma', (template.format('weight'),)), Rule(f'{name}.beta', (template.format('bias'),))]


def blocks(name, source, depth, names):
    """Rules of ``depth`` blocks ``source.N``, whose layers have ``names`` {hcma's name: templates}."""
    rules = []
    for number in range(depth):
        for own, templates in names.items():
            made = norm if own.endswith('norm') else linear
            rules += made(f'{name}.blocks.{number}.{own}', *(f'{source}.{number}.{part}' for part in templates))
    return rules


def apply(layout, tensors, where):
    """The parameters {name: array} that ``layout`` makes of ``tensors`` {name: array}.

    Every tensor is used; raises ``InputError`` with names and shapes where one is missing or left over.
    """
    known = layout.sources()
    missing = [f'{name} is missing' for name in dict.fromkeys(known) if name not in tensors]
    left = [f'{name} {tensors[name].shape} has no use' for name in sorted(tensors.keys() - set(known))
            if name not in layout.buffers and not BUFFERS.match(name)]
    complain(where, layout.title, missing + left)
    arrays, wrong = dict(layout.constants), []
    for rule in layout.rules:
        parts = [tensors[name] for name in rule.sources]
        try:
            arrays[rule.name] = np.ascontiguousarray(FORMS[rule.form][0](parts))
        except (ValueError, IndexError):
            wrong.append(', '.join(f'{name} has shape {part.shape}' for name, part in zip(rule.sources, parts)))
    complain(where, layout.title, wrong)
    return arrays


def unapply(layout, arrays):
    """The tensors {name: array} that ``layout`` stores for the parameters ``arrays``."""
    tensors = {}
    for rule in layout.rules:
        parts = FORMS[rule.form][1](arrays[rule.name], len(rule.sources))
        tensors.update((name, np.ascontiguousarray(part)) for name, part in zip(rule.sources, parts))
    return tensors


def check_shapes(layout, arrays, shapes, where):
    """Refuse ``arrays`` whose shapes are not those that the model has, ``shapes`` {name: shape}."""
    sources = {rule.name: ', '.join(rule.sources) for rule in layout.rules}
    complain(where, layout.title, [
        f'{sources.get(name, name)} gives {array.shape}, where {shapes[name]} is expected'
        for name, array in arrays.items() if array.shape != shapes[name]])


def complain(where, title, faults):
    """Raise ``InputError`` with the first of the ``faults``, if there are any."""
    if faults:
        more = f' and {len(faults) - SHOWN} more' if len(faults) > SHOWN else ''
        raise InputError(f'{where}: read as {title}, {len(faults)} of its tensors do not fit: '
                         f'{"; ".join(faults[:SHOWN])}{more}')
