"""Weights of other projects to a checkpoint of hcma that gives the same features, logits and tokens."""
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hcma.data.whole import require_free
from hcma.errors import InputError
from hcma.interop import hugging_face, openai
from hcma.interop.files import read_folder, read_json, read_weights
from hcma.interop.preprocessing import FILE, read_preprocessing
from hcma.interop.rules import apply, check_shapes
from hcma.interop.tokenizers import fill_up, find_tokenizer
from hcma.models.hcma import BIAS, build_model
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import MODEL, write_checkpoint

HUGGING_FACE = ('model.safetensors', 'pytorch_model.bin')
OPEN_CLIP = ('open_clip_model.safetensors', 'open_clip_pytorch_model.bin')
OPEN_CLIP_CONFIG = 'open_clip_config.json'
VOCABULARY = 260  # the least that a recipe allows
CHINESE_CLIP_LENGTH = 52  # to which Chinese-CLIP's own code pads
# The local level starts with the projections of the sentence level: words and patches meet in the space that is there.
COPIES = {'image_tower.to_patch.linear.weight': 'image_tower.to_global.linear.weight',
          'text_tower.to_word.linear.weight': 'text_tower.to_sentence.linear.weight'}
WORD_SCALE = math.log(1 / 0.07)
LARGEST_SCALE = math.log(100) + 1e-6  # SigLIP's own is larger than what CLIP allows


@dataclass(frozen=True)
class Options:
    """What the files may leave open: see the options of tools/convert.py."""
    tokenizer: str = None
    activation: str = None
    config: str = None
    text_length: int = None


def convert(source, folder, options=Options(), overwrite=False):
    """Write the checkpoint ``folder`` of the weights ``source``; returns lines that say what was recognised.

    Raises ``InputError`` where the weights are not known, not whole, or not used to the last tensor.
    """
    source = Path(source)
    require_free(folder, overwrite, MODEL)
    layout, tensors, config = _read(source, options)
    arrays = apply(layout, tensors, source)
    image = {**layout.image, **_preprocessing(source, config, layout)}
    length = _text_length(source, layout, options)
    text = {**layout.text, 'length': length, 'clean': 'clip' if _cleans(layout) else 'none',
            'vocab_size': max(VOCABULARY, layout.text['vocab_size'])}
    arrays['text_tower.encoder.position'] = arrays['text_tower.encoder.position'][:, :length]
    scale = _number(layout.scale, tensors, source)
    recipe = _recipe(source, layout, image, text, scale)
    rows = len(arrays['text_tower.encoder.embedding'])
    place = options.tokenizer or (source if source.is_dir() else source.parent)
    tokenizer, file = find_tokenizer(place)
    captions = fill_up(tokenizer, rows, recipe.model.text.framing, length, f'{place}: {file}')
    arrays.update({name: arrays[copied] for name, copied in COPIES.items()})
    arrays['log_scale'] = np.array([scale, WORD_SCALE], np.float32)
    if layout.bias is not None:
        arrays['bias'] = np.array([_number(layout.bias, tensors, source), BIAS], np.float32)
    shapes = {parameter.name: tuple(parameter.shape) for parameter in build_model(recipe, rows).get_parameters()}
    check_shapes(layout, arrays, shapes, source)
    write_checkpoint(folder, arrays, recipe, captions, overwrite)
    return _said(layout, recipe, tensors, file, captions)


def _read(source, options):
    """The (layout, tensors, open_clip's config or {}) of ``source``."""
    if not source.exists():
        raise InputError(f'{source}: no such file or folder; give a folder with config.json, or a file of weights')
    config = read_json(options.config) if options.config else _open_clip_config(source)
    if source.is_dir() and (source / 'config.json').is_file():
        layout = hugging_face.layout_of(read_json(source / 'config.json'), source / 'config.json')
        return layout, read_folder(source, HUGGING_FACE), {}
    tensors = read_folder(source, OPEN_CLIP) if source.is_dir() else read_weights(source)
    tensors = openai.with_prefixes(tensors)
    if not openai.is_openai(tensors):
        first = ', '.join(f'{name} {array.shape}' for name, array in list(tensors.items())[:5])
        raise InputError(f'{source}: {len(tensors)} tensors in no layout that is known (OpenAI, open_clip, '
                         f'Chinese-CLIP; a Hugging Face model is given as its folder); the first: {first}')
    layout = openai.layout_of(tensors, config.get('model_cfg', config), options.activation, source)
    return layout, tensors, config.get('preprocess_cfg', {})


def _number(name, tensors, source):
    if tensors[name].size != 1:
        raise InputError(f'{source}: {name} has shape {tensors[name].shape}, where one number is expected')
    return float(tensors[name].reshape(()))


def _open_clip_config(source):
    path = (source if source.is_dir() else source.parent) / OPEN_CLIP_CONFIG
    return read_json(path) if path.is_file() else {}


def _preprocessing(source, config, layout):
    """The values of ``model.image`` that the files give, else those of the project."""
    path = source / FILE
    if path.is_file():
        return read_preprocessing(read_json(path), layout.image['size'], path)
    statistics = {own: list(config[name]) for own, name in (('mean', 'mean'), ('deviation', 'std')) if name in config}
    if layout.image['pool'] == 'attention':
        return {'fit': 'squash', 'mean': [0.5] * 3, 'deviation': [0.5] * 3}
    squashes = config.get('resize_mode') == 'squash' or layout.text.get('norm') == 'post'
    return {'fit': 'squash' if squashes else 'shortest', **statistics}


def _text_length(source, layout, options):
    longest = layout.text['length']
    if options.text_length is not None:
        if not 3 <= options.text_length <= longest:
            raise InputError(f'--text-length {options.text_length}: the model has {longest} positions; give 3 to '
                             f'{longest}')
        return options.text_length
    if layout.title.startswith('Chinese'):
        return min(longest, CHINESE_CLIP_LENGTH)
    path = source / 'tokenizer_config.json'
    limit = read_json(path).get('model_max_length') if path.is_file() else None
    return min(longest, int(limit)) if limit else longest


def _cleans(layout):
    """OpenAI's and open_clip's tokenizers clean captions; those of Hugging Face and Chinese-CLIP do not."""
    return layout.title.startswith('OpenAI')


def _recipe(source, layout, image, text, scale):
    if scale < 0:
        raise InputError(f'{source}: {layout.scale} is {scale:.4f}, a temperature above 1, which hcma does not hold')
    model = {'preset': 'vit_b32', 'image': image, 'text': text, 'embed_width': layout.embed_width,
             'word_embed_width': layout.embed_width}
    loss = {'contrast': 'softmax' if layout.bias is None else 'sigmoid',
            'temperature': {'minimum': 0.01 if scale < LARGEST_SCALE else math.exp(-scale) * (1 - 1e-6)}}
    return parse_recipe({'name': Path(os.path.abspath(source)).name, 'model': model, 'loss': loss,
                         'train': {'epochs': 1, 'lr': 1e-5},
                         # The word level has learnt nothing yet: a pair's score is the original's.
                         'evaluate': {'weights': {'sentence_global': 1.0, 'word_patch': 0.0}}}, str(source))


def _said(layout, recipe, tensors, tokenizer, captions):
    model = recipe.model
    parameters = sum(array.size for array in tensors.values() if array.dtype.kind == 'f')
    lines = [f'{layout.title}: {len(tensors)} tensors, {parameters:,} parameters, all used',
             f'image: {model.image.size} px in patches of {model.image.patch_size}, {_tower(model.image)}, '
             f'fit {model.image.fit}',
             f'text: {model.text.length} tokens of {captions.vocab_size:,}, {_tower(model.text)}, {tokenizer}']
    if model.text.length < layout.text['length']:
        lines.append(f'text: positions {model.text.length} to {layout.text["length"] - 1} left out; --text-length '
                     'keeps more')
    return lines


def _tower(tower):
    return f'{tower.depth} blocks of width {tower.width} with {tower.heads} heads, {tower.activation}'
