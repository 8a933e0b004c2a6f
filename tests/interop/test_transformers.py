"""Converted = original once more, against transformers itself, where it and torch are installed."""
import json
import tarfile

import numpy as np
import pytest
from mindspore import Tensor
from PIL import Image
from safetensors.numpy import load_file

from hcma.data.crops import Decoder
from hcma.data.tokenizer import CaptionTokenizer
from hcma.interop.convert import convert
from hcma.interop.to_hugging_face import to_hugging_face
from hcma.interop.tokenizers import find_tokenizer, vocabulary_and_merges
from hcma.training.checkpoint import load_model
from helpers.foreign_weights import config_of, tensors_of, write_model

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')
PICTURES = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
CAPTIONS = ['ab cd', 'abcd!', 'a b c d a b c d a b c d']


@pytest.mark.parametrize('kind', ['clip', 'chinese_clip', 'siglip'])
def test_logits_are_those_of_the_library(kind, tmp_path):
    folder = write_model(tmp_path / 'hf', config_of(kind), tensors_of(config_of(kind)))
    config = json.loads((folder / 'config.json').read_text())
    config['text_config'].update(bos_token_id=18, eos_token_id=19)
    (folder / 'config.json').write_text(json.dumps(config))
    convert(folder, tmp_path / 'own')
    model, recipe, tokenizer = load_model(tmp_path / 'own')
    ids, lengths = tokenizer.encode(CAPTIONS)
    pixels = (PICTURES / 255 - recipe.model.image.mean) / recipe.model.image.deviation
    inputs = {'input_ids': torch.tensor(ids).long(), 'pixel_values': torch.tensor(pixels.transpose(0, 3, 1, 2)).float()}
    if kind != 'siglip':
        inputs['attention_mask'] = torch.tensor(np.arange(ids.shape[1]) < lengths[:, None]).long()
    with torch.no_grad():
        expected = transformers.AutoModel.from_pretrained(folder).eval()(**inputs).logits_per_text.numpy()
    logits = model(Tensor(PICTURES), Tensor(ids), Tensor(lengths))[0].asnumpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_what_is_written_is_loaded_with_the_same_logits(tmp_path):
    convert(write_model(tmp_path / 'hf', config_of('clip'), tensors_of(config_of('clip'))), tmp_path / 'own')
    to_hugging_face(tmp_path / 'own', tmp_path / 'back')
    processor = transformers.CLIPProcessor.from_pretrained(tmp_path / 'back', backend='pil')
    pictures = [Image.fromarray(np.random.default_rng(seed).integers(0, 256, (11, 17, 3), dtype=np.uint8))
                for seed in range(3)]
    inputs = processor(text=CAPTIONS, images=pictures, return_tensors='pt', padding='max_length', truncation=True,
                       max_length=9)
    with torch.no_grad():
        clip = transformers.CLIPModel.from_pretrained(tmp_path / 'back').eval()
        expected = clip(**inputs).logits_per_text.numpy()
    model, recipe, tokenizer = load_model(tmp_path / 'own')
    decoder = Decoder((8, 8), recipe.model.image.fit)
    pixels = np.stack([decoder.whole(np.asarray(picture)) for picture in pictures])
    logits = model(Tensor(pixels), *map(Tensor, tokenizer.encode(CAPTIONS)))[0].asnumpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_pickled_weights_are_those_of_safetensors(tmp_path):
    folder = write_model(tmp_path / 'hf', config_of('clip'), tensors_of(config_of('clip')))
    tensors = {name: torch.tensor(array) for name, array in load_file(folder / 'model.safetensors').items()}
    torch.save({'state_dict': tensors, 'epoch': 3}, folder / 'pytorch_model.bin')
    convert(folder, tmp_path / 'one')
    (folder / 'model.safetensors').unlink()
    convert(folder, tmp_path / 'other')
    one, other = ((tmp_path / name / 'model.safetensors').read_bytes() for name in ('one', 'other'))
    assert one == other


def test_ids_of_all_captions_of_flickr8k_are_the_librarys(real_data, tmp_path):
    """Both languages, with CLIP's tokenizer and with BERT's."""
    tok = real_data('tok')
    with tarfile.open(real_data('flickr8k.tar')) as archive:
        lines = [line for split in ('train', 'val', 'test', 'extra')
                 for line in archive.extractfile(f'pairs/{split}.jsonl').read().decode().splitlines()]
    captions = [text for row in map(json.loads, lines) for text in row['captions'] + row.get('captions_zh', [])]
    clip = find_tokenizer(tok / 'bpe_simple_vocab_16e6.txt.gz')[0]
    vocabulary, merges = vocabulary_and_merges(clip)
    theirs = transformers.CLIPTokenizer(vocab=vocabulary, merges=[tuple(merge.split()) for merge in merges])
    bert = transformers.BertTokenizer(str(tok / 'cn_clip_vocab.txt'))
    for own, other, length in ((clip, theirs, 77), (find_tokenizer(tok / 'cn_clip_vocab.txt')[0], bert, 52)):
        ids, lengths = CaptionTokenizer(own, length).encode(captions)
        expected = other(captions, truncation=True, max_length=length)['input_ids']
        assert [row[:count].tolist() for row, count in zip(ids, lengths)] == expected
