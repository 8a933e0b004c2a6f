"""hcma.load gives what the model and its tools give, from paths and from pictures alike."""
import numpy as np
import pytest
from mindspore import Tensor
from PIL import Image

import hcma
from hcma.api import LINE
from hcma.data.crops import Decoder
from hcma.errors import InputError
from hcma.training.checkpoint import load_model
from helpers.questions import save_aligned

TEXTS = ['what red', 'red']


@pytest.fixture(scope='module')
def run(make_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp('run')
    model = {'image': {'size': [16, 24], 'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
    rng = np.random.default_rng(0)
    for name in 'ab':
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(folder / f'{name}.png')
    return save_aligned(folder / 'run', make_recipe(model, evaluate={'weights': {'word_patch': 0.5}}))


@pytest.mark.graph
def test_features_scores_and_maps_are_those_of_the_model(run):
    paths = [run.parent / f'{name}.png' for name in 'ab']
    pictures = [Image.open(path) for path in paths]
    api, (model, _, tokenizer) = hcma.load(run), load_model(run)
    pixels = np.stack([Decoder((16, 24)).whole(np.asarray(picture)) for picture in pictures])
    text, image = model.text_tower(*map(Tensor, tokenizer.encode(TEXTS))), model.image_tower(Tensor(pixels))
    np.testing.assert_allclose(api.encode_image(paths), image[0].asnumpy(), atol=1e-5)
    np.testing.assert_allclose(api.encode_text(TEXTS), text[0].asnumpy(), atol=1e-5)
    scores = [score.asnumpy() for score in model.scaled(model.scores(text, image))]
    np.testing.assert_allclose(api.score(pictures, TEXTS), scores[0] + 0.5 * scores[1], atol=1e-4)

    shown = api.explain(paths[0], 'what red')
    one = api.explain(pictures[0].convert('RGBA'), 'red')
    assert shown.size == (2 * one.width, one.height) and np.ptp(np.asarray(one)) > 0
    assert one.width / (one.height - LINE) == 24 / 16
    with pytest.raises(InputError, match='none.png: cannot be used'):
        api.encode_image(['none.png'])
