"""What every measurement reads: the recipe, one batch, the photographs and captions in a folder."""
import importlib.util
from functools import cached_property
from pathlib import Path

import numpy as np

from hcma.recipe_io import load_recipe

RECIPE, WEIGHTS, BATCH, CAPTIONS = 'recipe.yaml', 'weights.safetensors', 'batch.npz', 'captions.txt'
PHOTOGRAPHS = 'photographs'
COLUMNS = ('image', 'ids', 'length', 'group')
UPDATES = 3  # after which the losses are compared once more
PASSED = 1024  # photographs that a loader passes, over and again if there are fewer


class Workplace:
    """The folder of a measurement by ``side``, of a process that was ``launched`` then and has so many ``threads``."""

    def __init__(self, folder, side, launched, threads):
        self.folder, self.side, self.launched, self.threads = Path(folder), side, launched, threads
        self.recipe = load_recipe(self.folder / RECIPE)

    @cached_property
    def batch(self):
        """The arrays of ``COLUMNS``."""
        with np.load(self.folder / BATCH) as stored:
            return [stored[name] for name in COLUMNS]

    @cached_property
    def captions(self):
        """A list of captions."""
        return (self.folder / CAPTIONS).read_text(encoding='utf-8').splitlines()

    @cached_property
    def photographs(self):
        """The paths of the JPEG files."""
        return sorted((self.folder / PHOTOGRAPHS).iterdir())


def open_clip_file(name):
    """The path of a file of open_clip, which is not imported for it."""
    return Path(importlib.util.find_spec('open_clip').origin).with_name(name)


def clip_merges():
    """The path of CLIP's merges."""
    return open_clip_file('bpe_simple_vocab_16e6.txt.gz')


def contrast_rows(pairs, width):
    """Normalised random texts and images (pairs, width) float32."""
    return _rows(pairs, width), _rows(pairs, width, seed=1)


def word_rows(pairs, recipe):
    """The same for words (pairs, L, E') and patches (pairs, P, E') as the model of ``recipe`` has them."""
    model = recipe.model
    return (_rows(pairs, model.text.length, model.word_embed_width),
            _rows(pairs, model.image.patches, model.word_embed_width, seed=1))


def _rows(*shape, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return x / np.sqrt((x * x).sum(-1, keepdims=True))
