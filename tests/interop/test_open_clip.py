"""Converted = original, against open_clip itself, where it is installed."""
import json

import numpy as np
import pytest
from mindspore import Tensor

from hcma.data.tokenizer import CaptionTokenizer
from hcma.interop.convert import Options, convert
from hcma.interop.tokenizers import find_tokenizer
from hcma.training.checkpoint import load_model
from helpers.foreign_weights import write_tokenizer

torch = pytest.importorskip('torch')
pytest.importorskip('ftfy')
open_clip = pytest.importorskip('open_clip', exc_type=(ImportError, RuntimeError))
VISION = {'layers': 2, 'width': 12, 'head_width': 4, 'patch_size': 4}
TEXT = {'context_length': 9, 'vocab_size': 20, 'width': 8, 'heads': 2, 'layers': 1}


@pytest.mark.parametrize('size, quick', [(8, True), ([8, 12], False)])
def test_features_are_those_of_open_clip_also_of_pictures_that_are_no_squares(size, quick, tmp_path):
    config = {'embed_dim': 10, 'vision_cfg': {**VISION, 'image_size': size}, 'text_cfg': TEXT, 'quick_gelu': quick}
    torch.manual_seed(0)
    original = open_clip.CLIP(**config).eval()
    torch.save(original.state_dict(), tmp_path / 'open_clip_pytorch_model.bin')
    (tmp_path / 'open_clip_config.json').write_text(json.dumps({'model_cfg': config, 'preprocess_cfg': {}}))
    write_tokenizer(tmp_path, 'clip')
    convert(tmp_path, tmp_path / 'own', Options())
    model, recipe, tokenizer = load_model(tmp_path / 'own')
    pictures = np.random.default_rng(0).integers(0, 256, (2, *recipe.model.image.pixels, 3), dtype=np.uint8)
    pixels = (pictures / 255 - recipe.model.image.mean) / recipe.model.image.deviation
    ids, lengths = tokenizer.encode(['ab cd', 'a!'])
    with torch.no_grad():
        image = original.encode_image(torch.tensor(pixels.transpose(0, 3, 1, 2)).float(), normalize=True).numpy()
        text = original.encode_text(torch.tensor(ids).long(), normalize=True).numpy()
    np.testing.assert_allclose(model.image_tower(Tensor(pictures))[0].asnumpy(), image, atol=1e-5)
    np.testing.assert_allclose(model.text_tower(Tensor(ids), Tensor(lengths))[0].asnumpy(), text, atol=1e-5)


def test_ids_of_all_captions_of_flickr8k_are_open_clips(real_data, captions):
    """open_clip's tokenizer, which is OpenAI's but for the names of the special tokens, cleans captions."""
    path = str(real_data('tok') / 'bpe_simple_vocab_16e6.txt.gz')
    captions = [caption for caption in captions if '<|' not in caption]
    expected = open_clip.tokenizer.SimpleTokenizer(path)(captions).numpy()
    ids, _ = CaptionTokenizer(find_tokenizer(path)[0], 77, clean='clip').encode(captions)
    assert [caption for caption, one, other in zip(captions, ids, expected) if not np.array_equal(one, other)] == []
