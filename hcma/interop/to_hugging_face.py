"""A run of hcma as a Hugging Face folder that ``CLIPModel`` and ``CLIPProcessor`` of transformers load."""
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hcma.data.whole import appearing_folder, require_free
from hcma.errors import InputError
from hcma.interop.hugging_face import ACTIVATIONS, class_image_rules, text_rules
from hcma.interop.preprocessing import FILE, write_preprocessing
from hcma.interop.rules import Layout, Rule, unapply
from hcma.interop.tokenizers import BEGIN, END, vocabulary_and_merges
from hcma.models.lora import merge_lora
from hcma.training.checkpoint import load_model

MARKER = 'config.json'
# What the recipe must say for CLIPModel to be able to compute it.
NEEDED = {'image': {'stem': 'patchify', 'pool': 'class', 'patch_bias': False, 'directions': False},
          'text': {'causal': True, 'norm': 'pre', 'pool': 'end', 'begin': True, 'padding': None, 'directions': False,
                   'projection_bias': False}}


def to_hugging_face(run, folder, overwrite=False):
    """Write ``folder``; returns lines that say what was written and what of the run it leaves out.

    Raises ``InputError`` where CLIPModel has no such model.
    """
    require_free(folder, overwrite, MARKER)
    model, recipe, tokenizer = load_model(run)
    _require_clip(run, recipe)
    words = vocabulary_and_merges(tokenizer.tokenizer)
    if words is None or tokenizer.tokenizer.id_to_token(tokenizer.end) != END:
        raise InputError(f'{run}: its tokenizer is not CLIP\'s, and CLIPProcessor has no other; only runs that began '
                         'with CLIP weights (model.weights) can be written')
    towers = recipe.model
    layout = Layout('Hugging Face CLIP', {}, {}, towers.embed_width, [
        *class_image_rules(towers.image.depth), *text_rules(towers.text.depth),
        Rule('text_tower.to_sentence.linear.weight', ('text_projection.weight',))])
    arrays = merge_lora(model)
    tensors = unapply(layout, arrays)
    tensors['logit_scale'] = np.array(arrays['log_scale'][recipe.loss.levels.index('sentence_global')])
    used = {rule.name for rule in layout.rules} | {'log_scale'}
    files = {MARKER: _config(towers, tokenizer), FILE: write_preprocessing(towers.image), 'vocab.json': words[0],
             'tokenizer_config.json': _tokenizer_config(towers.text)}
    with appearing_folder(folder, overwrite, MARKER) as partial:
        partial = Path(partial)
        save_file(tensors, partial / 'model.safetensors', metadata={'format': 'pt'})
        for name, values in files.items():
            (partial / name).write_text(json.dumps(values, indent=1, ensure_ascii=False), encoding='utf-8')
        (partial / 'merges.txt').write_text('\n'.join(['#version: 0.2', *words[1], '']), encoding='utf-8')
        (partial / 'tokenizer.json').write_text(tokenizer.to_json(), encoding='utf-8')
    return _said(tensors, sorted(arrays.keys() - used), recipe)


def _require_clip(run, recipe):
    if not isinstance(recipe.model.image.size, int):
        raise InputError(f'{run}: model.image.size is {list(recipe.model.image.size)}, and CLIPModel knows squares '
                         'only')
    for tower, needed in NEEDED.items():
        for key, value in needed.items():
            found = getattr(getattr(recipe.model, tower), key)
            if found != value:
                raise InputError(f'{run}: model.{tower}.{key} is {found}, and CLIPModel knows {value} only')
    if 'sentence_global' not in recipe.loss.levels:
        raise InputError(f'{run}: was not trained at the level sentence_global, which is all that CLIPModel compares')


def _config(model, tokenizer):
    names = {own: name for name, own in reversed(ACTIVATIONS.items())}

    def tower(section, **values):
        return {'hidden_size': section.width, 'num_hidden_layers': section.depth, 'num_attention_heads': section.heads,
                'intermediate_size': section.mlp_width, 'hidden_act': names[section.activation],
                'layer_norm_eps': section.norm_eps, 'projection_dim': model.embed_width, **values}
    text = tower(model.text, vocab_size=tokenizer.vocab_size, max_position_embeddings=model.text.length,
                 bos_token_id=tokenizer.begin[0], eos_token_id=tokenizer.end, pad_token_id=tokenizer.end)
    vision = tower(model.image, image_size=model.image.size, patch_size=model.image.patch_size)
    return {'architectures': ['CLIPModel'], 'model_type': 'clip', 'projection_dim': model.embed_width,
            'text_config': text, 'vision_config': vision}


def _tokenizer_config(text):
    return {'tokenizer_class': 'CLIPTokenizer', 'model_max_length': text.length, 'bos_token': BEGIN, 'eos_token': END,
            'pad_token': END, 'unk_token': END}


def _said(tensors, left, recipe):
    lines = [f'Hugging Face CLIP: {len(tensors)} tensors']
    if left:
        lines.append(f'left out, as CLIPModel has no place for it: {", ".join(left)}')
    if recipe.model.text.clean != 'none':
        lines.append('note: this model reads captions with HTML entities resolved, CLIPProcessor does not')
    if recipe.model.image.fit == 'square':
        lines.append('note: CLIPProcessor resizes before it cuts, this run after (model.image.fit square): pixels '
                     'differ a little')
    return lines
