"""A student's first weights out of its teacher's: chosen blocks, and of these what is strongest where it is narrower.

One set of the residual stream's dimensions is kept in a whole tower, one of the shared dimensions in both towers; each
block keeps the heads and neurons that can write most. All are told by the norms of the weights, no data is needed.
"""
import re

import numpy as np

from hcma.models.windows import shared_areas

TOWERS = {'image': 'image_tower', 'text': 'text_tower'}
# What an encoder has outside of its blocks that has the stream's dimensions, or is a stem.
OUTSIDE = re.compile(r'(embedding|position|class_embedding|(input_)?norm\.\w+|stem\.[\w.]+)$')
# The projections of both towers into each shared space.
SPACES = (('to_sentence', 'to_global'), ('to_word', 'to_patch'), ('to_phrase', 'to_region'))


def inherited(arrays, shapes, teacher, student, blocks, same_words):
    """What the student takes over, {name: array}, of the teacher's weights ``arrays`` without low-rank additions.

    ``shapes`` {name: shape} are the student's, ``teacher`` and ``student`` the ``model`` sections of their recipes;
    ``blocks`` {'image', 'text'} names the teacher's blocks that become the student's, in order. Embeddings are taken
    if tokens are the ``same_words``. Whatever has another shape even so, such as another stem, is left out.
    """
    taken = {}
    for kind, tower in TOWERS.items():
        own, other = getattr(student, kind), getattr(teacher, kind)
        taken.update(_Tower(arrays, tower, blocks[kind], own, other).taken(same_words))
    for spaces in SPACES:
        taken.update(_space(arrays, taken, shapes, *(f'{tower}.{name}.linear.weight' for tower, name in
                                                     zip(('text_tower', 'image_tower'), spaces))))
    return {name: array for name, array in taken.items() if shapes.get(name) == array.shape}


class _Tower:
    """One tower's choice; ``own`` and ``other`` are the tower sections of student and teacher."""

    def __init__(self, arrays, tower, blocks, own, other):
        self.arrays, self.tower, self.blocks, self.own, self.other = arrays, tower, blocks, own, other
        self.prefix = f'{tower}.encoder.'
        self.dims = strongest(self._streams(), own.width)

    def _streams(self):
        """How much is read from and written to each dimension of the residual stream, (D,)."""
        strength = np.zeros(self.other.width)
        for name, array in self.arrays.items():
            if not name.startswith(self.tower):
                continue
            if name.endswith(('query_key_value.weight', 'mlp.up.weight', 'linear.weight')):
                strength += np.square(array).sum(0)
            elif name.endswith(('attention.out.weight', 'mlp.down.weight')):
                strength += np.square(array).sum(1)
        return strength

    def taken(self, same_words):
        """{student's name: array} of the tower."""
        taken = {}
        for place, block in enumerate(self.blocks):
            for name, array in self._block(f'{self.prefix}blocks.{block}.').items():
                taken[f'{self.prefix}blocks.{place}.{name}'] = array
        for name, array in self.arrays.items():
            if OUTSIDE.match(name.removeprefix(self.prefix)):
                taken[name] = self._outside(name.removeprefix(self.prefix), array)
            elif name.startswith(self.tower) and name.endswith('linear.weight'):
                taken[name] = array[:, self.dims]
        if not same_words:
            taken.pop(f'{self.prefix}embedding', None)
        return taken

    def _outside(self, name, array):
        """What is in no block: its last axis is the stream, but inside of a stem."""
        if name.startswith('stem.convolutions'):
            return array
        if name == 'stem.project.weight':
            return array[self.dims]
        if name == 'position':
            array = self._positions(array)
        return array[..., self.dims]

    def _positions(self, array):
        """Those of the first words, or means of the patches where grids differ."""
        if not hasattr(self.own, 'grid'):
            return array[:, :self.own.length]
        first = array.shape[1] - self.other.patches
        patches = shared_areas(self.own.grid, self.other.grid) @ array[0, first:]
        return np.concatenate((array[0, :first], patches))[None]

    def _block(self, prefix):
        """{name in the block: array} of one block of the teacher."""
        block = {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}
        width, heads = self.other.width, self.other.heads
        out, value = block['attention.out.weight'], block['attention.query_key_value.weight'][2 * width:]
        writes = np.square(out).reshape(width, heads, -1).sum((0, 2)) * np.square(value).reshape(heads, -1).sum(1)
        kept = strongest(writes, self.own.heads)
        inside = (kept[:, None] * (width // heads) + np.arange(width // heads)).reshape(-1)
        thrice = np.concatenate([inside + part * width for part in range(3)])
        up, down = block['mlp.up.weight'], block['mlp.down.weight']
        neurons = strongest(np.square(up).sum(1) * np.square(down).sum(0), self.own.mlp_width)
        axes = {'attention.query_key_value.weight': (thrice, self.dims), 'attention.query_key_value.bias': (thrice,),
                'attention.out.weight': (self.dims, inside), 'mlp.up.weight': (neurons, self.dims),
                'mlp.up.bias': (neurons,), 'mlp.down.weight': (self.dims, neurons)}
        taken = {name: array[np.ix_(*axes.get(name, (self.dims,)))] for name, array in block.items()
                 if name != 'directions.table'}
        if 'directions.table' in block:
            taken['directions.table'] = self._directions(block['directions.table'][kept])
        return taken

    def _directions(self, table):
        """Those of short distances, where texts are shorter; a grid of patches must be the same."""
        if hasattr(self.own, 'grid'):
            return table
        cut = self.other.length - self.own.length
        return table[:, max(cut, 0):table.shape[1] - max(cut, 0)]


def _space(arrays, taken, shapes, text, image):
    """The projections to the dimensions of a shared space that both towers use most."""
    if text not in taken or image not in taken or text not in shapes:
        return {}
    strength = np.square(arrays[text]).sum(1) * np.square(arrays[image]).sum(1)
    kept = strongest(strength, shapes[text][0])
    return {name: taken[name][kept] for name in (text, image)}


def strongest(strength, count):
    """The places of the ``count`` largest numbers, in their order."""
    return np.sort(np.argsort(-strength, kind='stable')[:count])
