"""Exported graphs are the model: MindIR for any batch, ONNX where onnxruntime is installed."""
import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mindspore import Tensor, load, nn

import hcma
from hcma.training.checkpoint import load_model
from helpers.packs import make_pack
from helpers.questions import save_aligned

ROOT = Path(__file__).parents[2]
MODEL = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 1}, 'text': {'depth': 1}, 'fusion': {'heads': 2}}


def exported(run, folder, *options):
    """The lines that the tool prints; a process of its own, as compiled kernels must be off from the start."""
    command = [sys.executable, str(ROOT / 'tools' / 'export.py'), str(run), '--to', str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=run.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.graph
@pytest.mark.parametrize('fit', ['square', 'shortest', 'squash'])
def test_the_script_of_the_docs_finds_what_the_model_finds(fit, make_recipe, tmp_path, monkeypatch, capsys):
    pytest.importorskip('onnxruntime')
    model = {'image': {'size': [16, 24], 'fit': fit}, 'text': {'depth': 1}}
    run = save_aligned(tmp_path / 'run', make_recipe(model))
    lines = exported(run, tmp_path / 'out', '--data', str(make_pack(tmp_path, count=5)))
    assert lines[3] == f'checked with 3 random pairs and 5 of {tmp_path / "pack"}'
    pictures = tmp_path / 'pairs'
    (pictures / 'broken.png').write_bytes(b'no')
    monkeypatch.setattr(sys, 'argv', ['search_onnx.py', str(tmp_path / 'out'), str(pictures), 'what red'])
    runpy.run_path(str(ROOT / 'recipes' / 'search_onnx.py'), run_name='__main__')
    out, err = capsys.readouterr()
    found = {path: float(cosine) for cosine, path in map(str.split, out.splitlines())}
    api, paths = hcma.load(run), sorted(pictures.glob('[0-9]*.png'))
    cosines = api.encode_image(paths) @ api.encode_text(['what red'])[0]
    assert 'broken.png: skipped' in err and found.keys() == {str(path) for path in paths}
    np.testing.assert_allclose([found[str(path)] for path in paths], cosines, atol=6e-4)


@pytest.mark.graph
def test_graphs_give_what_the_model_gives_for_any_batch(make_recipe, tmp_path):
    run = save_aligned(tmp_path / 'run', make_recipe(MODEL, evaluate={'weights': {'word_patch': 0.5, 'matching': 0.0}}))
    lines = exported(run, tmp_path / 'out', '--format', 'mindir')
    assert sum('from the model' in line for line in lines) == 3
    about = json.loads((tmp_path / 'out' / 'export.json').read_text())
    assert about['score'] == {'inputs': ['sentence', 'word', 'word_mask', 'global', 'patch'],
                              'weights': {'sentence_global': 1.0, 'word_patch': 0.5}}

    model, _, tokenizer = load_model(run)
    graphs = {name: nn.GraphCell(load(str(tmp_path / 'out' / f'{name}.mindir'))) for name in ('image', 'text', 'score')}
    pictures = Tensor(np.random.default_rng(1).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8))
    words = [Tensor(array) for array in tokenizer.encode(['what red', '', 'red'])]
    text, image = graphs['text'](*words), graphs['image'](pictures)
    expected = model.scaled(model.scores(model.text_tower(*words)[:3], model.image_tower(pictures)[:2]))
    expected = np.diagonal(expected[0].asnumpy() + 0.5 * expected[1].asnumpy())
    np.testing.assert_allclose(graphs['score'](*text, *image).asnumpy(), expected, atol=1e-4)
