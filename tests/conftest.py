"""What the tests share: the device and its mode, a tiny recipe, batches, and the folder of real data."""
import os
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

from hcma.recipe_io import parse_recipe
from helpers import batches

REAL_DATA = Path(os.environ.get('HCMA_TEST_DATA', Path(__file__).parents[2] / 'shared' / 'data'))


@pytest.fixture(scope='session', autouse=True)
def _cpu():
    ms.set_device('CPU')
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture(autouse=True)
def _mode(request):
    """PYNATIVE unless the test is marked ``graph``; whatever a test leaves behind, the next starts from there."""
    graph = request.node.get_closest_marker('graph') is not None
    ms.set_context(mode=ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture(scope='session')
def make_recipe():
    """``make_recipe(section={...})``: the recipe of the preset ``tiny``, one epoch, with other values where given."""
    def make(model=None, train=None, **sections):
        return parse_recipe({'model': {'preset': 'tiny', **(model or {})}, 'train': {'epochs': 1, **(train or {})},
                             **sections}, 'recipe of a test')
    return make


@pytest.fixture(scope='session')
def make_batch():
    """``make_batch(recipe, size, seed)``: random pictures, captions and group ids as a training batch of Tensors."""
    return batches.make_batch


@pytest.fixture(scope='session')
def vocabulary():
    """How many token ids the batches draw from."""
    return batches.VOCABULARY


@pytest.fixture(scope='session')
def numerical_gradient():
    """``numerical_gradient(f, x, h)``: central differences of the scalar ``f`` at the float64 array ``x``."""
    def gradient(function, x, h=1e-5):
        result = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[at] = h
            result[at] = (function(x + step) - function(x - step)) / (2 * h)
        return result
    return gradient


@pytest.fixture
def real_data():
    """``real_data(name)``: the path of that file or folder of real data; skips the test where there is none."""
    def find(name):
        path = REAL_DATA / name
        if not path.exists():
            pytest.skip(f'no real data {name}: set HCMA_TEST_DATA')
        return path
    return find
