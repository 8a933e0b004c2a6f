"""Retrieval compares the boxes and chunks of its pack; where there are none, windows and runs of words."""
from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Tensor
from PIL import Image

from hcma.data.crops import Decoder
from hcma.data.tokenizer import train_tokenizer
from hcma.evaluation.features import Encoder
from hcma.evaluation.tasks import _Pairs
from hcma.models.hcma import build_model
from helpers.packs import make_pack

CAPTIONS = ['a red cat sits', 'a cat']


@pytest.fixture
def pairs(tmp_path, make_recipe):
    """Features of a pack of two pictures, 40 x 20, that are alike but for one's box and chunk, and the model."""
    model = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}, 'region_sizes': [2],
             'regions': 'boxes', 'phrases': 'chunks', 'max_boxes': 2, 'max_chunks': 3}
    recipe = make_recipe(model=model, loss={'levels': ['phrase_region']})
    tokenizer = train_tokenizer(CAPTIONS * 50, 300, 8)
    made = build_model(recipe, tokenizer.vocab_size).set_train(False)
    noise = np.random.default_rng(0).integers(0, 256, (20, 40, 3), dtype=np.uint8)
    for name in 'ab':
        Image.fromarray(noise).save(tmp_path / f'{name}.png')
    own = {'boxes': [[20, 0, 40, 20]], 'chunks': [[[2, 9]], None]}
    data = make_pack(tmp_path, [{'image': 'a.png', 'captions': CAPTIONS, **own},
                                {'image': 'b.png', 'captions': CAPTIONS}])
    evaluation = SimpleNamespace(encoder=Encoder(made, recipe, tokenizer), decoder=Decoder((16, 16)))
    return _Pairs(evaluation, data), made, tokenizer


def test_a_box_of_the_pack_is_the_region_that_the_central_square_shows_of_it(pairs):
    found, tower = pairs[0], pairs[1].image_tower
    patches = tower.encoder(Tensor(found.pictures[0][None]))[0].asnumpy().reshape(2, 2, -1)
    means = np.stack([patches[:, 1].mean(0), patches.mean((0, 1)), patches.mean((0, 1))])  # its right half, windows
    right, window, _ = tower.to_region(Tensor(means)).asnumpy()
    np.testing.assert_allclose(found.image[1], [[right, window], [window, window]], atol=1e-5)


def test_a_chunk_of_the_pack_is_the_phrase_and_other_captions_have_runs_of_words(pairs):
    found, model, tokenizer = pairs
    word = model.text_tower.encoder(*map(Tensor, tokenizer.encode(CAPTIONS[:1])))[0].asnumpy()[0]
    means = np.stack([word[2:4].mean(0), word[1:4].mean(0), word[2:5].mean(0)])
    chunk, *runs = model.text_tower.to_phrase(Tensor(means)).asnumpy()
    phrase, mask = found.text[1:]
    np.testing.assert_allclose(phrase[0, 0], chunk, atol=1e-5)
    np.testing.assert_allclose(phrase[2, :2], runs, atol=1e-5)
    assert mask.tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]]
