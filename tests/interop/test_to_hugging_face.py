"""There and back again: a converted model, written for CLIPModel, is the folder that it came from, to the bit."""
import json

import numpy as np
import pytest
from mindspore import Tensor
from safetensors.numpy import load_file, save_file

from hcma.errors import InputError
from hcma.interop.convert import convert
from hcma.interop.to_hugging_face import to_hugging_face
from hcma.models.hcma import build_model
from hcma.models.lora import is_addition
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import MODEL, load_model, write_checkpoint
from helpers.foreign_model import Reference
from helpers.foreign_weights import BPE, MERGES, config_of, tensors_of, write_model
from helpers.questions import save_aligned

PREPROCESSING = {'size': {'shortest_edge': 8}, 'crop_size': 8, 'image_mean': [0.5, 0.25, 0.5],
                 'image_std': [0.5, 0.5, 0.25]}


@pytest.fixture(scope='module')
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp('hf')
    write_model(folder, config_of('clip'), tensors_of(config_of('clip')))
    (folder / 'preprocessor_config.json').write_text(json.dumps(PREPROCESSING))
    convert(folder, folder / 'own')
    return folder


def test_the_round_trip_is_exact(original, tmp_path):
    lines = to_hugging_face(original / 'own', tmp_path / 'hf')
    assert lines[1].endswith('for it: image_tower.to_patch.linear.weight, text_tower.to_word.linear.weight')
    before, after = load_file(original / 'model.safetensors'), load_file(tmp_path / 'hf' / 'model.safetensors')
    assert before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in before)
    config = json.loads((tmp_path / 'hf' / 'config.json').read_text())
    for section in ('vision_config', 'text_config'):
        assert config_of('clip')[section].items() <= config[section].items()
    assert (config['text_config']['eos_token_id'], config['text_config']['bos_token_id']) == (19, 18)
    assert json.loads((tmp_path / 'hf' / 'vocab.json').read_text()) == {token: at for at, token in enumerate(BPE)}
    assert (tmp_path / 'hf' / 'merges.txt').read_text().splitlines()[1:] == MERGES
    preprocessing = json.loads((tmp_path / 'hf' / 'preprocessor_config.json').read_text())
    assert preprocessing['image_mean'] == [0.5, 0.25, 0.5] and preprocessing['size'] == {'shortest_edge': 8}

    convert(tmp_path / 'hf', tmp_path / 'again')
    for name in (MODEL, 'tokenizer.json'):
        assert (original / 'own' / name).read_bytes() == (tmp_path / 'again' / name).read_bytes()


def test_additions_are_merged_into_what_is_written(original, tmp_path):
    _, recipe, tokenizer = load_model(original / 'own')
    values = recipe.model_dump(mode='json')
    values['model']['image']['train'] = 'lora'
    recipe = parse_recipe(values, 'recipe of a test')
    model, arrays, rng = build_model(recipe, 20), load_file(original / 'own' / MODEL), np.random.default_rng(0)
    arrays.update({parameter.name: rng.normal(size=parameter.shape).astype(np.float32) * 0.2
                   for parameter in model.get_parameters() if is_addition(parameter.name)})
    write_checkpoint(tmp_path / 'lora', arrays, recipe, tokenizer)
    to_hugging_face(tmp_path / 'lora', tmp_path / 'hf')
    pictures = rng.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    tensors = load_file(tmp_path / 'hf' / 'model.safetensors')
    own = load_model(tmp_path / 'lora')[0].image_tower(Tensor(pictures))[0].asnumpy()
    reference = Reference(config_of('clip'), tensors)
    pixels = ((pictures / 255 - [0.5, 0.25, 0.5]) / [0.5, 0.5, 0.25] * [0.26862954, 0.26130258, 0.27577711]
              + [0.48145466, 0.4578275, 0.40821073]) * 255  # what the reference takes for these pixels
    np.testing.assert_allclose(own, reference.image(pixels), atol=1e-4)
    assert not np.allclose(Reference(config_of('clip'), load_file(original / 'model.safetensors')).image(pixels), own,
                           atol=1e-2)


def test_what_clip_has_no_place_for_is_refused(make_recipe, original, tmp_path):
    run = save_aligned(tmp_path / 'run', make_recipe())
    with pytest.raises(InputError, match='model.image.stem is convolution, and CLIPModel knows patchify only'):
        to_hugging_face(run, tmp_path / 'hf')
    clip = {'image': {'stem': 'patchify', 'patch_size': 4, 'pool': 'class', 'directions': False},
            'text': {'causal': True, 'pool': 'end', 'directions': False}}
    run = save_aligned(tmp_path / 'own words', make_recipe(clip))
    with pytest.raises(InputError, match="its tokenizer is not CLIP's"):
        to_hugging_face(run, tmp_path / 'hf')
    with pytest.raises(InputError, match='exists and is not empty'):
        to_hugging_face(original / 'own', original)


def test_an_existing_folder_is_replaced_only_when_told(original, tmp_path):
    save_file({}, tmp_path / 'other')
    for overwrite in (False, True):
        with pytest.raises(InputError, match='is a file; give a folder'):
            convert(original, tmp_path / 'other', overwrite=overwrite)
    convert(original, tmp_path / 'own')
    with pytest.raises(InputError, match='pass --overwrite'):
        convert(original, tmp_path / 'own')
    convert(original, tmp_path / 'own', overwrite=True)
