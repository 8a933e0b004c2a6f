"""A run that finds its step compiled is the same to the bit as one that compiles it, and so is one that goes on."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hcma.errors import InputError
from hcma.recipe_io import dump_recipe, parse_recipe
from hcma.training.checkpoint import MODEL, STATE, checkpoints
from helpers.packs import make_pack

TRAIN = Path(__file__).parents[2] / 'tools' / 'train.py'


def recipe(data):
    return parse_recipe({
        'data': {'train': str(data)}, 'loss': {'levels': ['sentence_global']},
        'model': {'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}},
        'train': {'epochs': 2, 'batch_size': 4, 'lr': 1e-2, 'checkpoint_every': 3, 'compile_cache': True}},
        'recipe of a test')


def newest(run):
    folder = checkpoints(run)[-1]
    return (folder / MODEL).read_bytes(), (folder / STATE).read_bytes()


@pytest.mark.graph
def test_a_kept_graph_trains_as_a_compiled_one_from_whatever_weights(tmp_path):
    data, file, graphs = make_pack(tmp_path / 'data', count=10), tmp_path / 'recipe.yaml', tmp_path / 'hcma' / 'graphs'
    file.write_text(dump_recipe(recipe(data)))

    def train(run, *more):
        subprocess.run([sys.executable, TRAIN, file, '--out', run, *more], check=True, capture_output=True,
                       env={**os.environ, 'XDG_CACHE_HOME': str(tmp_path)})
        return newest(run), sorted((path, path.stat().st_mtime_ns) for path in graphs.rglob('*.mindir'))
    compiled, kept = train(tmp_path / 'a')
    assert kept and train(tmp_path / 'b') == (compiled, kept)
    shutil.rmtree(checkpoints(tmp_path / 'b')[-1])
    assert train(tmp_path / 'b', '--resume') == (compiled, kept)


def test_a_plan_that_is_searched_for_is_not_kept(make_recipe):
    with pytest.raises(InputError, match='compile_cache: what plan auto compiles differs'):
        make_recipe(train={'compile_cache': True, 'plan': 'auto'})
