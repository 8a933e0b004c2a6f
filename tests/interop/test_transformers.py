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
from hcma.interop.files import read_weights
from hcma.interop.to_hugging_face import to_hugging_face
from hcma.interop.tokenizers import find_tokenizer, vocabulary_and_merges
from hcma.models.hcma import build_model
from hcma.recipe_io import load_recipe, parse_recipe
from hcma.training.checkpoint import load_model
from hcma.training.start import start_from
from helpers.foreign_weights import config_of, openai_tensors, tensors_of, write_model

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


@pytest.mark.parametrize('pixels', [(8, 8), (8, 24), (20, 12)])
def test_pictures_of_another_size_have_the_features_of_interpolated_positions(pixels, tmp_path):
    folder = write_model(tmp_path / 'hf', config_of('clip'), tensors_of(config_of('clip')))
    convert(folder, tmp_path / 'own')
    values = load_recipe(tmp_path / 'own' / 'recipe.yaml').model_dump(mode='json')
    values['model']['image']['size'] = list(pixels)
    recipe = parse_recipe(values, 'recipe of a test')
    model = build_model(recipe, 20)
    start_from(model, recipe, tmp_path / 'own')
    pictures = np.random.default_rng(1).integers(0, 256, (2, *pixels, 3), dtype=np.uint8)
    normal = (pictures / 255 - recipe.model.image.mean) / recipe.model.image.deviation
    with torch.no_grad():
        clip = transformers.CLIPModel.from_pretrained(folder).eval()
        seen = clip.vision_model(torch.tensor(normal.transpose(0, 3, 1, 2)).float(), interpolate_pos_encoding=True)
        expected = clip.visual_projection(seen.pooler_output)
        expected /= expected.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(model.image_tower(Tensor(pictures))[0].asnumpy(), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize('patch, activation', [(32, 'quick_gelu'), (16, 'gelu')])
def test_clip_at_its_full_size_has_the_logits_of_the_library_from_files_and_captions(patch, activation, real_data,
                                                                                     tmp_path):
    """ViT-B/32 and B/16 with random weights: photographs and captions, each prepared by either side itself."""
    tower = {'hidden_act': activation}
    config = transformers.CLIPConfig(text_config=tower, vision_config={**tower, 'patch_size': patch})
    torch.manual_seed(patch)
    clip = transformers.CLIPModel(config).eval()
    processor = transformers.CLIPProcessor(transformers.CLIPImageProcessor(), clip_tokenizer(real_data)[1])
    clip.save_pretrained(tmp_path / 'hf')
    processor.save_pretrained(tmp_path / 'hf')
    convert(tmp_path / 'hf', tmp_path / 'own')
    with tarfile.open(real_data('flickr8k.tar')) as archive:
        rows = [json.loads(line) for line in archive.extractfile('pairs/test.jsonl').read().splitlines()[:4]]
        pictures = [Image.open(archive.extractfile(f'pairs/{row["image"]}')).convert('RGB') for row in rows]
    captions = [row['captions'][0] for row in rows]
    inputs = processor(text=captions, images=pictures, return_tensors='pt', padding='max_length', truncation=True)
    with torch.no_grad():
        expected = clip(**inputs).logits_per_text.numpy()
    model, recipe, tokenizer = load_model(tmp_path / 'own')
    decoder = Decoder(recipe.model.image.pixels, recipe.model.image.fit)
    pixels = np.stack([decoder.whole(np.asarray(picture)) for picture in pictures])
    ids, lengths = tokenizer.encode(captions)
    logits = model(Tensor(pixels), Tensor(ids), Tensor(lengths))[0].asnumpy()
    print(f'ViT-B/{patch}, {activation}: logits {np.abs(logits - expected).max():.1e} from the library')
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_files_of_torch_are_those_of_safetensors(tmp_path):
    folder = write_model(tmp_path / 'hf', config_of('clip'), tensors_of(config_of('clip')))
    tensors = {name: torch.tensor(array) for name, array in load_file(folder / 'model.safetensors').items()}
    convert(folder, tmp_path / 'one')
    (folder / 'model.safetensors').unlink()
    for number, form in enumerate(({}, {'_use_new_zipfile_serialization': False})):
        torch.save({'state_dict': tensors, 'epoch': 3}, folder / 'pytorch_model.bin', **form)
        convert(folder, tmp_path / f'other_{number}')
        one, other = ((tmp_path / name / 'model.safetensors').read_bytes() for name in ('one', f'other_{number}'))
        assert one == other


class Program(torch.nn.Module):
    """Modules within modules whose parameters, or whose ``buffers``, are the tensors with these names."""

    def __init__(self, tensors, buffers=()):
        super().__init__()
        for name, array in tensors.items():
            first, _, rest = name.partition('.')
            if not rest and name in buffers:
                self.register_buffer(first, torch.tensor(array))
            elif not rest:
                setattr(self, first, torch.nn.Parameter(torch.tensor(array)))
            elif not hasattr(self, first):
                setattr(self, first, Program({key.partition('.')[2]: value for key, value in tensors.items()
                                              if key.startswith(f'{first}.')}))

    def forward(self, x: torch.Tensor):
        return x


@pytest.mark.parametrize('half', [False, True])
def test_a_program_like_openais_is_read_for_its_tensors(half, tmp_path):
    tensors = openai_tensors(tensors_of(config_of('clip')))
    stated = {name: np.array(9) for name in ('input_resolution', 'context_length', 'vocab_size')}
    program = torch.jit.script(Program({**tensors, **stated}, stated))
    program = program.half() if half else program
    program.save(str(tmp_path / 'ViT.pt'))
    found = read_weights(tmp_path / 'ViT.pt')
    expected = {name: value.float().numpy() if value.is_floating_point() else value.numpy()
                for name, value in program.state_dict().items()}
    assert found.keys() == expected.keys() == {*tensors, *stated}
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


def clip_tokenizer(real_data):
    """OpenAI's vocabulary as our tokenizer and as the library's."""
    own = find_tokenizer(real_data('tok') / 'bpe_simple_vocab_16e6.txt.gz')[0]
    vocabulary, merges = vocabulary_and_merges(own)
    merges = [tuple(merge.split()) for merge in merges]
    return own, transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77)


def test_ids_of_all_captions_of_flickr8k_are_the_librarys(real_data, captions):
    """With CLIP's tokenizer and with BERT's."""
    own, theirs = clip_tokenizer(real_data)
    vocabulary = real_data('tok') / 'cn_clip_vocab.txt'
    pairs = ((own, theirs, 77), (find_tokenizer(vocabulary)[0], transformers.BertTokenizer(str(vocabulary)), 52))
    for one, other, length in pairs:
        ids, lengths = CaptionTokenizer(one, length).encode(captions)
        expected = other(captions, truncation=True, max_length=length)['input_ids']
        assert [row[:count].tolist() for row, count in zip(ids, lengths)] == expected
