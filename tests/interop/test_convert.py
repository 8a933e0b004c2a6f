"""Converted = original: features, logits and pair scores of weights in every layout, against float64 NumPy."""
import json

import numpy as np
import pytest
from mindspore import Tensor
from safetensors.numpy import load_file, save_file

from hcma.errors import InputError
from hcma.evaluation.features import Encoder
from hcma.evaluation.weights import weightings
from hcma.interop.convert import Options, convert
from hcma.training.checkpoint import load_model
from helpers.foreign_model import Reference
from helpers.foreign_weights import config_of, openai_tensors, tensors_of, write_model, write_tokenizer

PICTURES = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
CAPTIONS = ['ab cd', 'abcd!', '', 'a b c d a b c d a b c d', '猫 a']
TOLERANCE = 1e-4
KINDS = [('clip', 'quick_gelu'), ('clip', 'gelu'), ('chinese_clip', None), ('siglip', None)]


def check(checkpoint, reference):
    """Features and logits of the checkpoint are those of ``reference``."""
    model, recipe, tokenizer = load_model(checkpoint)
    ids, lengths = tokenizer.encode(CAPTIONS)
    image, text = model.image_tower(Tensor(PICTURES)), model.text_tower(Tensor(ids), Tensor(lengths))
    np.testing.assert_allclose(image[0].asnumpy(), reference.image(PICTURES), atol=TOLERANCE)
    np.testing.assert_allclose(text[0].asnumpy(), reference.text(ids, lengths), atol=TOLERANCE)
    logits = model.scaled(model.scores(text, image))[0].asnumpy()
    np.testing.assert_allclose(logits, reference.logits(PICTURES, ids, lengths), atol=TOLERANCE)
    return recipe


@pytest.fixture(scope='module', params=KINDS, ids=lambda kind: '-'.join(filter(None, kind)))
def original(request, tmp_path_factory):
    """A folder of Hugging Face's, its config and tensors."""
    config = config_of(*request.param)
    tensors = tensors_of(config)
    return write_model(tmp_path_factory.mktemp('hf') / 'original', config, tensors), config, tensors


def test_features_and_logits_are_the_originals(original, tmp_path):
    folder, config, tensors = original
    lines = convert(folder, tmp_path / 'own')
    assert f'{len(tensors)} tensors' in lines[0] and 'all used' in lines[0]
    recipe = check(tmp_path / 'own', Reference(config, tensors))
    assert recipe.loss.levels == ('sentence_global', 'word_patch')


def test_the_score_of_a_pair_starts_as_the_originals(original, tmp_path):
    folder, config, tensors = original
    convert(folder, tmp_path / 'own')
    model, recipe, tokenizer = load_model(tmp_path / 'own')
    encoder = Encoder(model, recipe, tokenizer)
    text, image = encoder.texts(CAPTIONS[:3]), encoder.images(PICTURES, 3)
    score = weightings(model.terms, recipe.evaluate.weights)['weighted'] @ encoder.score_pairs(text, image)
    ids, lengths = tokenizer.encode(CAPTIONS[:3])
    bias = tensors.get('logit_bias', np.zeros(1))[0]  # the same for all pairs, so no part of an order
    expected = np.diagonal(Reference(config, tensors).logits(PICTURES, ids, lengths)) - bias
    np.testing.assert_allclose(score, expected, atol=TOLERANCE)


@pytest.mark.parametrize('kind', ['clip', 'chinese_clip'])
@pytest.mark.parametrize('wrapped', ['plain', 'module', 'text', 'visual'])
def test_openai_layouts_with_and_without_prefixes(kind, wrapped, tmp_path, monkeypatch):
    monkeypatch.setattr('hcma.interop.openai.HEAD_WIDTH', 4)
    config = config_of(kind)
    config['text_config'].update(hidden_size=12, num_attention_heads=3)
    tensors = tensors_of(config)
    state = openai_tensors(tensors, bert=kind == 'chinese_clip')
    if wrapped == 'module':
        state = {f'module.{name}': array for name, array in state.items()}
    elif wrapped in ('text', 'visual'):
        own = {name for name in state if not name.startswith(('visual.', 'logit_'))}
        state = {f'text.{name}' if name in own else name: array for name, array in state.items()}
        if wrapped == 'visual':
            state = {name.removeprefix('visual.'): array for name, array in state.items()}
    save_file(state, tmp_path / 'weights.safetensors')
    write_tokenizer(tmp_path, kind)
    convert(tmp_path / 'weights.safetensors', tmp_path / 'own', Options(activation='quick_gelu'))
    recipe = check(tmp_path / 'own', Reference(config, tensors))
    assert recipe.model.text.clean == ('clip' if kind == 'clip' else 'none')


def test_half_precision_shards_and_position_ids_are_read(tmp_path):
    config = config_of('clip')
    tensors = {name: array.astype(np.float16) for name, array in tensors_of(config).items()}
    folder = write_model(tmp_path / 'hf', config, tensors)
    (folder / 'model.safetensors').unlink()
    names = sorted(tensors)
    parts = {'model-1.safetensors': names[:20], 'model-2.safetensors': names[20:]}
    for part, inside in parts.items():
        save_file({name: tensors[name] for name in inside}, folder / part)
    save_file({**{name: tensors[name] for name in names[20:]},
               'text_model.embeddings.position_ids': np.arange(9)[None]}, folder / 'model-2.safetensors')
    weight_map = {name: part for part, inside in parts.items() for name in inside}
    (folder / 'model.safetensors.index.json').write_text(json.dumps({'weight_map': weight_map}))
    convert(folder, tmp_path / 'own')
    check(tmp_path / 'own', Reference(config, tensors))


def test_bfloat16_is_read(tmp_path):
    config = config_of('clip')
    tensors = tensors_of(config)
    upper = {name: (array.reshape(-1).view(np.uint32) >> 16).astype(np.uint16) for name, array in tensors.items()}
    cut = {name: (bits.astype(np.uint32) << 16).view(np.float32).reshape(tensors[name].shape)
           for name, bits in upper.items()}
    folder = write_model(tmp_path / 'hf', config, cut)
    header, data = {}, b''
    for name, bits in upper.items():
        end = len(data) + bits.nbytes
        header[name] = {'dtype': 'BF16', 'shape': list(cut[name].shape), 'data_offsets': [len(data), end]}
        data += bits.tobytes()
    text = json.dumps(header).encode()
    (folder / 'model.safetensors').write_bytes(len(text).to_bytes(8, 'little') + text + data)
    convert(folder, tmp_path / 'own')
    check(tmp_path / 'own', Reference(config, cut))


def changed(change):
    """A CLIP folder's tensors after ``change(tensors)``."""
    tensors = tensors_of(config_of('clip'))
    change(tensors)
    return tensors


@pytest.mark.parametrize('change, message', [
    (lambda t: t.pop('visual_projection.weight'), 'visual_projection.weight is missing'),
    (lambda t: t.update({'extra.gate': np.zeros((3, 2), np.float32)}), r'extra.gate \(3, 2\) has no use'),
    (lambda t: t.update({'vision_model.post_layernorm.bias': np.zeros(5, np.float32)}),
     r'vision_model.post_layernorm.bias gives \(5,\), where \(12,\) is expected'),
    (lambda t: t.update({'text_model.encoder.layers.0.self_attn.k_proj.weight': np.zeros((8, 3), np.float32)}),
     r'k_proj.weight has shape \(8, 3\)'),
    (lambda t: t.update({'logit_scale': np.array(-1, np.float32)}), 'logit_scale is -1.0000, a temperature above 1'),
    (lambda t: t.update({'logit_scale': np.zeros(2, np.float32)}), r'logit_scale has shape \(2,\), where one number')])
def test_tensors_that_do_not_fit_are_refused_by_name_and_shape(change, message, tmp_path):
    folder = write_model(tmp_path / 'hf', config_of('clip'), changed(change))
    with pytest.raises(InputError, match=message):
        convert(folder, tmp_path / 'own')
    assert not (tmp_path / 'own').exists()


def refused(tmp_path, message, source, **options):
    with pytest.raises(InputError, match=message):
        convert(source, tmp_path / 'own', Options(**options))


def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path):
    state = openai_tensors(tensors_of(config_of('clip')))
    refused(tmp_path, 'none: no such file or folder', tmp_path / 'none')
    save_file(state, tmp_path / 'w.safetensors')
    refused(tmp_path, 'pass --activation quick_gelu', tmp_path / 'w.safetensors')
    refused(tmp_path, 'no tokenizer there .* pass --tokenizer', tmp_path / 'w.safetensors', activation='gelu')
    save_file({'layer1.conv1.weight': np.zeros(2, np.float32)}, tmp_path / 'other.safetensors')
    refused(tmp_path, r'no layout that is known .* layer1.conv1.weight \(2,\)', tmp_path / 'other.safetensors')
    save_file({'visual.layer1.0.conv1.weight': np.zeros(2, np.float32)}, tmp_path / 'resnet.safetensors')
    refused(tmp_path, 'a ResNet', tmp_path / 'resnet.safetensors')
    (tmp_path / 'broken.safetensors').write_bytes(b'no')
    refused(tmp_path, 'broken.safetensors: cannot be read', tmp_path / 'broken.safetensors')
    folder = write_model(tmp_path / 'hf', {**config_of('clip'), 'model_type': 'blip'}, tensors_of(config_of('clip')))
    refused(tmp_path, "model_type is 'blip'", folder)
    folder = write_model(folder, config_of('clip'), tensors_of(config_of('clip')))
    refused(tmp_path, '--text-length 99: the model has 9 positions', folder, text_length=99)
    (folder / 'preprocessor_config.json').write_text(json.dumps({'resample': 2}))
    refused(tmp_path, 'preprocessor_config.json: resample is 2', folder)


def test_the_first_positions_can_be_kept_alone(tmp_path):
    config = config_of('chinese_clip')
    tensors = tensors_of(config)
    lines = convert(write_model(tmp_path / 'hf', config, tensors), tmp_path / 'own', Options(text_length=5))
    assert 'text: positions 5 to 8 left out' in lines[-1]
    assert check(tmp_path / 'own', Reference(config, tensors)).model.text.length == 5


def test_words_and_patches_start_in_the_space_of_the_sentences(tmp_path):
    convert(write_model(tmp_path / 'hf', config_of('clip'), tensors_of(config_of('clip'))), tmp_path / 'own')
    arrays = load_file(tmp_path / 'own' / 'model.safetensors')
    for tower, one, other in (('image', 'to_patch', 'to_global'), ('text', 'to_word', 'to_sentence')):
        assert np.array_equal(*(arrays[f'{tower}_tower.{part}.linear.weight'] for part in (one, other)))
