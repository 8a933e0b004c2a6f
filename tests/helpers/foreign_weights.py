"""Small folders in Hugging Face's layouts of CLIP, Chinese-CLIP and SigLIP: config, random weights, tokenizer."""
import json

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

# Towers of unequal width, depth and heads; more ids than words, so that every special token has its place.
VISION = {'hidden_size': 12, 'num_hidden_layers': 2, 'num_attention_heads': 3, 'intermediate_size': 20,
          'image_size': 8, 'patch_size': 4, 'hidden_act': 'quick_gelu', 'layer_norm_eps': 1e-5}
TEXT = {'hidden_size': 8, 'num_hidden_layers': 1, 'num_attention_heads': 2, 'intermediate_size': 16,
        'vocab_size': 20, 'max_position_embeddings': 9, 'hidden_act': 'quick_gelu', 'layer_norm_eps': 1e-5}
PROJECTION = 10


def config_of(kind, activation=None):
    """The config.json of a small ``kind``: 'clip', 'chinese_clip' or 'siglip'."""
    vision, text = dict(VISION), dict(TEXT)
    if kind == 'chinese_clip':
        text.update(hidden_act='gelu', layer_norm_eps=1e-12)
    if kind == 'siglip':
        for tower in (vision, text):
            tower.update(hidden_act='gelu_pytorch_tanh', layer_norm_eps=1e-6)
        text.update(projection_size=12, pad_token_id=1)
    if activation is not None:
        vision['hidden_act'] = text['hidden_act'] = activation
    return {'model_type': kind, 'projection_dim': PROJECTION, 'vision_config': vision, 'text_config': text}


def tensors_of(config, seed=0):
    """Random tensors {name: float32 array} of a model with this config, large enough for every layer to count."""
    rng = np.random.default_rng(seed)
    kind, vision, text = config['model_type'], config['vision_config'], config['text_config']
    shapes = {**_vision_shapes(kind, vision), **(_bert_shapes(text) if kind == 'chinese_clip' else
                                                 _text_shapes(kind, text))}
    if kind != 'siglip':
        shapes['visual_projection.weight'] = (PROJECTION, vision['hidden_size'])
        shapes['text_projection.weight'] = (PROJECTION, text['hidden_size'])
    tensors = {}
    for name, shape in shapes.items():
        is_gain = name.endswith('weight') and ('norm' in name.lower() or 'layrnorm' in name) and len(shape) == 1
        tensors[name] = (rng.normal(size=shape) * (0.2 if len(shape) == 1 else 0.5) + is_gain).astype(np.float32)
    tensors['logit_scale'] = np.array(3.2 if kind != 'siglip' else [4.7], np.float32)
    if kind == 'siglip':
        tensors['logit_bias'] = np.array([-12.5], np.float32)
    return tensors


def _linear(name, outputs, inputs):
    return {f'{name}.weight': (outputs, inputs), f'{name}.bias': (outputs,)}


def _norm(name, width):
    return {f'{name}.weight': (width,), f'{name}.bias': (width,)}


def _layer_shapes(prefix, config):
    width, hidden, shapes = config['hidden_size'], config['intermediate_size'], {}
    for part in 'qkv':
        shapes.update(_linear(f'{prefix}.self_attn.{part}_proj', width, width))
    return {**shapes, **_linear(f'{prefix}.self_attn.out_proj', width, width), **_norm(f'{prefix}.layer_norm1', width),
            **_linear(f'{prefix}.mlp.fc1', hidden, width), **_linear(f'{prefix}.mlp.fc2', width, hidden),
            **_norm(f'{prefix}.layer_norm2', width)}


def _vision_shapes(kind, config):
    width, patch = config['hidden_size'], config['patch_size']
    count, top = (config['image_size'] // patch) ** 2, 'vision_model.'
    shapes = {f'{top}embeddings.patch_embedding.weight': (width, 3, patch, patch),
              **_norm(f'{top}post_layernorm', width)}
    for number in range(config['num_hidden_layers']):
        shapes.update(_layer_shapes(f'{top}encoder.layers.{number}', config))
    if kind != 'siglip':
        return {**shapes, f'{top}embeddings.class_embedding': (width,), **_norm(f'{top}pre_layrnorm', width),
                f'{top}embeddings.position_embedding.weight': (count + 1, width)}
    head, hidden = f'{top}head.', config['intermediate_size']
    return {**shapes, f'{top}embeddings.position_embedding.weight': (count, width),
            f'{top}embeddings.patch_embedding.bias': (width,), f'{head}probe': (1, 1, width),
            f'{head}attention.in_proj_weight': (3 * width, width), f'{head}attention.in_proj_bias': (3 * width,),
            **_linear(f'{head}attention.out_proj', width, width), **_norm(f'{head}layernorm', width),
            **_linear(f'{head}mlp.fc1', hidden, width), **_linear(f'{head}mlp.fc2', width, hidden)}


def _text_shapes(kind, config):
    width, top = config['hidden_size'], 'text_model.'
    shapes = {f'{top}embeddings.token_embedding.weight': (config['vocab_size'], width),
              f'{top}embeddings.position_embedding.weight': (config['max_position_embeddings'], width),
              **_norm(f'{top}final_layer_norm', width)}
    for number in range(config['num_hidden_layers']):
        shapes.update(_layer_shapes(f'{top}encoder.layers.{number}', config))
    return {**shapes, **(_linear(f'{top}head', config['projection_size'], width) if kind == 'siglip' else {})}


def _bert_shapes(config):
    width, hidden, top = config['hidden_size'], config['intermediate_size'], 'text_model.embeddings.'
    shapes = {f'{top}word_embeddings.weight': (config['vocab_size'], width), **_norm(f'{top}LayerNorm', width),
              f'{top}position_embeddings.weight': (config['max_position_embeddings'], width),
              f'{top}token_type_embeddings.weight': (2, width)}
    for number in range(config['num_hidden_layers']):
        layer = f'text_model.encoder.layer.{number}.'
        for part in ('query', 'key', 'value'):
            shapes.update(_linear(f'{layer}attention.self.{part}', width, width))
        shapes.update({**_linear(f'{layer}attention.output.dense', width, width),
                       **_norm(f'{layer}attention.output.LayerNorm', width),
                       **_linear(f'{layer}intermediate.dense', hidden, width),
                       **_linear(f'{layer}output.dense', width, hidden), **_norm(f'{layer}output.LayerNorm', width)})
    return shapes


LETTERS = ['a', 'b', 'c', 'd']
BPE = [*LETTERS, *(letter + '</w>' for letter in LETTERS), 'ab', 'ab</w>', 'cd</w>', 'abcd</w>', '!', '!</w>', '&',
       '&</w>', ';', ';</w>', '<|startoftext|>', '<|endoftext|>']
MERGES = ['a b', 'a b</w>', 'c d</w>', 'ab cd</w>']
BERT = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *LETTERS, '##b', '##c', '##d', '猫', '狗', '!', '&', ';', 'cat',
        'dog', '##s']
UNIGRAM = ['<unk>', '<pad>', '</s>', '▁', *LETTERS, *(f'▁{letter}' for letter in LETTERS), '猫', '狗', '!', 'cd', '▁ab',
           '▁cat', '&', ';']


def write_tokenizer(folder, kind):
    """Write a vocabulary of 20 tokens in the form that is usual for ``kind``."""
    if kind == 'clip':
        vocabulary = {token: number for number, token in enumerate(BPE)}
        (folder / 'vocab.json').write_text(json.dumps(vocabulary), encoding='utf-8')
        (folder / 'merges.txt').write_text('\n'.join(['#version: 0.2', *MERGES, '']), encoding='utf-8')
    elif kind == 'chinese_clip':
        (folder / 'vocab.txt').write_text('\n'.join([*BERT, '']), encoding='utf-8')
    else:
        tokenizer = Tokenizer(models.Unigram([(token, -1.0) for token in UNIGRAM], unk_id=0))
        tokenizer.add_special_tokens(['</s>', '<pad>'])
        tokenizer.save(str(folder / 'tokenizer.json'))


def write_model(folder, config, tensors):
    """Write a whole folder: config.json, model.safetensors and tokenizer; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'config.json').write_text(json.dumps(config), encoding='utf-8')
    save_file(tensors, folder / 'model.safetensors')
    write_tokenizer(folder, config['model_type'])
    return folder


def openai_tensors(tensors, bert=False):
    """The same weights of a CLIP, or with ``bert`` of a Chinese-CLIP, under the names of OpenAI's own code."""
    plain = {'vision_model.embeddings.class_embedding': 'visual.class_embedding',
             'vision_model.embeddings.patch_embedding.weight': 'visual.conv1.weight',
             'vision_model.embeddings.position_embedding.weight': 'visual.positional_embedding',
             'text_model.embeddings.token_embedding.weight': 'token_embedding.weight',
             'text_model.embeddings.position_embedding.weight': 'positional_embedding', 'logit_scale': 'logit_scale'}
    parts = {'vision_model.pre_layrnorm': 'visual.ln_pre', 'vision_model.post_layernorm': 'visual.ln_post',
             'text_model.final_layer_norm': 'ln_final', 'vision_model.encoder.layers': 'visual.transformer.resblocks',
             'text_model.encoder.layers': 'transformer.resblocks', 'self_attn.out_proj': 'attn.out_proj',
             'layer_norm1': 'ln_1', 'layer_norm2': 'ln_2', 'mlp.fc1': 'mlp.c_fc', 'mlp.fc2': 'mlp.c_proj'}
    result = {'visual.proj': tensors['visual_projection.weight'].T.copy(),
              'text_projection': tensors['text_projection.weight'].T.copy()}
    for name, array in tensors.items():
        if 'q_proj' in name:
            joined = np.concatenate([tensors[name.replace('q_proj', f'{part}_proj')] for part in 'qkv'])
            name, array = name.replace('q_proj.', 'in_proj_').replace('self_attn', 'attn'), joined
        elif 'k_proj' in name or 'v_proj' in name or name in ('visual_projection.weight', 'text_projection.weight'):
            continue
        if bert and name.startswith('text_model.'):
            result[name.replace('text_model.', 'bert.')] = array
            continue
        for old, new in parts.items():
            name = name.replace(old, new)
        result[plain.get(name, name)] = array
    return result
