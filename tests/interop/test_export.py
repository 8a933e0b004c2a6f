"""Exported graphs are the model: MindIR for any batch, ONNX where onnxruntime is installed."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mindspore import Tensor, load, nn

from hcma.training.checkpoint import load_model
from helpers.questions import save_aligned

ROOT = Path(__file__).parents[2]
MODEL = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 1}, 'text': {'depth': 1}, 'fusion': {'heads': 2}}


@pytest.mark.graph
def test_graphs_give_what_the_model_gives_for_any_batch(make_recipe, tmp_path):
    run = save_aligned(tmp_path / 'run', make_recipe(MODEL, evaluate={'weights': {'word_patch': 0.5, 'matching': 0.0}}))
    command = [sys.executable, str(ROOT / 'tools' / 'export.py'), str(run), '--to', str(tmp_path / 'out'), '--format',
               'mindir']
    done = subprocess.run(command, capture_output=True, text=True, env=None, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('from the model') == 3
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
