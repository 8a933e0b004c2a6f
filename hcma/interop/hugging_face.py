"""The layouts of Hugging Face's CLIP, Chinese-CLIP and SigLIP, described by their config.json."""
import numpy as np

from hcma.errors import InputError
from hcma.interop.rules import Layout, Rule, blocks, linear, norm

BLOCK = {'attention.query_key_value': ('self_attn.q_proj.{}', 'self_attn.k_proj.{}', 'self_attn.v_proj.{}'),
         'attention.out': ('self_attn.out_proj.{}',), 'attention_norm': ('layer_norm1.{}',),
         'mlp.up': ('mlp.fc1.{}',), 'mlp.down': ('mlp.fc2.{}',), 'mlp_norm': ('layer_norm2.{}',)}
BERT_BLOCK = {'attention.query_key_value': tuple(f'attention.self.{part}.{{}}' for part in ('query', 'key', 'value')),
              'attention.out': ('attention.output.dense.{}',), 'attention_norm': ('attention.output.LayerNorm.{}',),
              'mlp.up': ('intermediate.dense.{}',), 'mlp.down': ('output.dense.{}',),
              'mlp_norm': ('output.LayerNorm.{}',)}
ACTIVATIONS = {'quick_gelu': 'quick_gelu', 'gelu': 'gelu', 'relu': 'relu', 'gelu_pytorch_tanh': 'gelu_tanh',
               'gelu_new': 'gelu_tanh'}
IMAGE, TEXT = 'image_tower.encoder', 'text_tower.encoder'
# What a config.json leaves out has these values: the library stores only what differs, in older files.
BASE = {'num_hidden_layers': 12, 'num_attention_heads': 12, 'hidden_size': 768, 'intermediate_size': 3072}
VISION = {**BASE, 'image_size': 224, 'patch_size': 32, 'hidden_act': 'quick_gelu', 'layer_norm_eps': 1e-5}
CLIP_TEXT = {**BASE, 'hidden_size': 512, 'intermediate_size': 2048, 'num_attention_heads': 8, 'vocab_size': 49408,
             'max_position_embeddings': 77, 'hidden_act': 'quick_gelu', 'layer_norm_eps': 1e-5}
BERT_TEXT = {**BASE, 'vocab_size': 30522, 'max_position_embeddings': 512, 'hidden_act': 'gelu',
             'layer_norm_eps': 1e-12}
SIGLIP_VISION = {**VISION, 'patch_size': 16, 'hidden_act': 'gelu_pytorch_tanh', 'layer_norm_eps': 1e-6}
SIGLIP_TEXT = {**BASE, 'vocab_size': 32000, 'max_position_embeddings': 64, 'hidden_act': 'gelu_pytorch_tanh',
               'layer_norm_eps': 1e-6, 'pad_token_id': 1}


def layout_of(config, where):
    """The ``Layout`` that ``config``, the object in config.json, describes; raises ``InputError``."""
    kind = config.get('model_type')
    if kind not in LAYOUTS:
        raise InputError(f'{where}: model_type is {kind!r}; what can be read is {", ".join(LAYOUTS)}')
    defaults = {'clip': (VISION, CLIP_TEXT), 'chinese_clip': (VISION, BERT_TEXT),
                'siglip': (SIGLIP_VISION, SIGLIP_TEXT)}[kind]
    vision, text = ({**base, **(config.get(key) or {})} for base, key in zip(defaults, ('vision_config',
                                                                                        'text_config')))
    return LAYOUTS[kind](config, vision, text, where)


def clip(config, vision, text, where):
    """Hugging Face's ``CLIPModel``."""
    rules = [*class_image_rules(vision['num_hidden_layers']), *text_rules(text['num_hidden_layers']),
             Rule('text_tower.to_sentence.linear.weight', ('text_projection.weight',))]
    return Layout('Hugging Face CLIP', {**_image(vision, where), 'pool': 'class'},
                  {**_text(text, where), 'causal': True, 'pool': 'end'}, config.get('projection_dim', 512), rules)


def chinese_clip(config, vision, text, where):
    """Hugging Face's ``ChineseCLIPModel``: CLIP's image tower and a BERT."""
    rules = [*class_image_rules(vision['num_hidden_layers']),
             *bert_rules(text['num_hidden_layers'], 'text_model.'),
             Rule('text_tower.to_sentence.linear.weight', ('text_projection.weight',))]
    return Layout('Hugging Face Chinese-CLIP', {**_image(vision, where), 'pool': 'class'},
                  {**_text(text, where), **BERT}, config.get('projection_dim', 512), rules)


BERT = {'causal': False, 'norm': 'post', 'pool': 'class'}


def siglip(config, vision, text, where):
    """Hugging Face's ``SiglipModel``: patches pooled by attention, padding that is read, a sigmoid loss."""
    width = vision['hidden_size']
    if vision.get('vision_use_head', True) is False or text.get('projection_size', width) != width:
        raise InputError(f'{where}: a SigLIP without its pooling head, or with two widths; convert the whole model')
    head = 'vision_model.head.'
    pool = f'{IMAGE}.attention_pool'
    rules = [*_patch_rules(True), *_shared_image_rules(vision['num_hidden_layers']),
             Rule(f'{pool}.query', (f'{head}probe',)), *linear(f'{pool}.attention.out', head + 'attention.out_proj.{}'),
             *norm(f'{pool}.norm', head + 'layernorm.{}'), *linear(f'{pool}.mlp.up', head + 'mlp.fc1.{}'),
             *linear(f'{pool}.mlp.down', head + 'mlp.fc2.{}'), *text_rules(text['num_hidden_layers']),
             *linear('text_tower.to_sentence.linear', 'text_model.head.{}')]
    for part in ('weight', 'bias'):
        source = (f'{head}attention.in_proj_{part}',)
        rules += [Rule(f'{pool}.attention.query.{part}', source, 'first third'),
                  Rule(f'{pool}.attention.key_value.{part}', source, 'other thirds')]
    return Layout('Hugging Face SigLIP', {**_image(vision, where), 'pool': 'attention', 'patch_bias': True},
                  {**_text(text, where), 'causal': False, 'pool': 'last', 'begin': False, 'projection_bias': True,
                   'padding': text['pad_token_id']}, width, rules, bias='logit_bias',
                  constants={'image_tower.to_global.linear.weight': np.eye(width, dtype=np.float32)})


LAYOUTS = {'clip': clip, 'chinese_clip': chinese_clip, 'siglip': siglip}


def class_image_rules(depth):
    """Rules of an image tower with a class token."""
    return [Rule(f'{IMAGE}.class_embedding', ('vision_model.embeddings.class_embedding',), 'row'),
            *norm(f'{IMAGE}.input_norm', 'vision_model.pre_layrnorm.{}'), *_patch_rules(False),
            *_shared_image_rules(depth), Rule('image_tower.to_global.linear.weight', ('visual_projection.weight',))]


def _patch_rules(has_bias):
    stem = 'vision_model.embeddings.patch_embedding'
    bias = [Rule(f'{IMAGE}.stem.project.bias', (f'{stem}.bias',))] if has_bias else []
    return [Rule(f'{IMAGE}.stem.project.weight', (f'{stem}.weight',), 'patch'), *bias]


def _shared_image_rules(depth):
    return [Rule(f'{IMAGE}.position', ('vision_model.embeddings.position_embedding.weight',), 'rows'),
            *blocks(IMAGE, 'vision_model.encoder.layers', depth, BLOCK),
            *norm(f'{IMAGE}.norm', 'vision_model.post_layernorm.{}')]


def text_rules(depth):
    """Rules of CLIP's own text tower but for the projection."""
    return [Rule(f'{TEXT}.embedding', ('text_model.embeddings.token_embedding.weight',)),
            Rule(f'{TEXT}.position', ('text_model.embeddings.position_embedding.weight',), 'rows'),
            *blocks(TEXT, 'text_model.encoder.layers', depth, BLOCK),
            *norm(f'{TEXT}.norm', 'text_model.final_layer_norm.{}')]


def bert_rules(depth, prefix):
    """Rules of a BERT as the text tower, but for the projection; its tensors begin with ``prefix``."""
    embeddings = f'{prefix}embeddings.'
    return [Rule(f'{TEXT}.embedding', (f'{embeddings}word_embeddings.weight',)),
            Rule(f'{TEXT}.position', (f'{embeddings}position_embeddings.weight',
                                      f'{embeddings}token_type_embeddings.weight'), 'positions of type 0'),
            *norm(f'{TEXT}.input_norm', embeddings + 'LayerNorm.{}'),
            *blocks(TEXT, f'{prefix}encoder.layer', depth, BERT_BLOCK)]


def _image(vision, where):
    return {**_tower(vision, where), 'size': vision['image_size'], 'stem': 'patchify',
            'patch_size': vision['patch_size']}


def _text(text, where):
    return {**_tower(text, where), 'length': text['max_position_embeddings'], 'vocab_size': text['vocab_size']}


def _tower(config, where):
    if config['hidden_act'] not in ACTIVATIONS:
        raise InputError(f'{where}: hidden_act {config["hidden_act"]!r} is none of {", ".join(ACTIVATIONS)}')
    return {'width': config['hidden_size'], 'depth': config['num_hidden_layers'],
            'heads': config['num_attention_heads'], 'mlp_width': config['intermediate_size'],
            'activation': ACTIVATIONS[config['hidden_act']], 'norm_eps': float(config['layer_norm_eps'])}
