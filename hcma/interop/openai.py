"""The layout of OpenAI's CLIP, which open_clip and Chinese-CLIP share, described by the shapes of its tensors."""
import re

from hcma.errors import InputError
from hcma.interop.hugging_face import BERT, IMAGE, TEXT, bert_rules
from hcma.interop.rules import Layout, Rule, blocks, norm

BLOCK = {'attention.query_key_value': ('attn.in_proj_{}',), 'attention.out': ('attn.out_proj.{}',),
         'attention_norm': ('ln_1.{}',), 'mlp.up': ('mlp.c_fc.{}',), 'mlp.down': ('mlp.c_proj.{}',),
         'mlp_norm': ('ln_2.{}',)}
HEAD_WIDTH = 64
# What OpenAI's own files state besides; nothing is learnt of it.
STATED = ('input_resolution', 'context_length', 'vocab_size')


def is_openai(tensors):
    """Whether ``tensors`` are of this layout."""
    return 'visual.class_embedding' in tensors or 'visual.layer1.0.conv1.weight' in tensors


def with_prefixes(tensors):
    """``tensors`` under OpenAI's names: what open_clip puts under ``text.`` moved up, an image tower under ``visual.``.
    """
    moved = {name.removeprefix('text.'): array for name, array in tensors.items()}
    if 'class_embedding' in tensors and any(name.startswith('text.') for name in tensors):
        own = {name for name in tensors if not name.startswith('text.') and not name.startswith('logit_')}
        moved = {(f'visual.{name}' if name in own else name.removeprefix('text.')): array
                 for name, array in tensors.items()}
    return moved


def layout_of(tensors, config, activation, where):
    """The ``Layout`` of a state dict; ``config`` is open_clip's of the model, or {}.

    ``activation`` is that of a model whose files do not tell it, or None. Raises ``InputError``.
    """
    if 'visual.class_embedding' not in tensors:
        raise InputError(f'{where}: its image tower is a ResNet; only Vision Transformers can be converted')
    has_bert = 'bert.embeddings.word_embeddings.weight' in tensors
    if has_bert or STATED[0] in tensors:
        activation = 'quick_gelu'  # of Chinese-CLIP, and of OpenAI's own files
    elif config:
        activation = 'quick_gelu' if config.get('quick_gelu') else 'gelu'
    elif activation is None:
        raise InputError(f'{where}: the weights do not tell their activation; pass --activation quick_gelu (all of '
                         "OpenAI's, and open_clip's models named so) or gelu, or --config with open_clip's JSON")
    try:
        image = _image(tensors, config.get('vision_cfg', {}), activation)
        text = _bert(tensors) if has_bert else _text(tensors, config.get('text_cfg', {}), activation)
    except (KeyError, IndexError) as error:
        raise InputError(f'{where}: looks like OpenAI\'s CLIP, but {error} is missing') from None
    rules = [*_image_rules(image['depth']), *(bert_rules(text['depth'], 'bert.') if has_bert else
                                              _text_rules(text['depth'])),
             Rule('text_tower.to_sentence.linear.weight', ('text_projection',), 'transposed')]
    title = "Chinese-CLIP's own layout" if has_bert else "OpenAI's CLIP or open_clip"
    return Layout(title, image, text, tensors['text_projection'].shape[1], rules, buffers=STATED,
                  bias='logit_bias' if 'logit_bias' in tensors else None)


def _image_rules(depth):
    return [Rule(f'{IMAGE}.class_embedding', ('visual.class_embedding',), 'row'),
            Rule(f'{IMAGE}.stem.project.weight', ('visual.conv1.weight',), 'patch'),
            Rule(f'{IMAGE}.position', ('visual.positional_embedding',), 'rows'),
            *norm(f'{IMAGE}.input_norm', 'visual.ln_pre.{}'),
            *blocks(IMAGE, 'visual.transformer.resblocks', depth, BLOCK),
            *norm(f'{IMAGE}.norm', 'visual.ln_post.{}'),
            Rule('image_tower.to_global.linear.weight', ('visual.proj',), 'transposed')]


def _text_rules(depth):
    return [Rule(f'{TEXT}.embedding', ('token_embedding.weight',)),
            Rule(f'{TEXT}.position', ('positional_embedding',), 'rows'),
            *blocks(TEXT, 'transformer.resblocks', depth, BLOCK), *norm(f'{TEXT}.norm', 'ln_final.{}')]


def _image(tensors, config, activation):
    width, _, _, patch = tensors['visual.conv1.weight'].shape
    size = config.get('image_size')
    if not isinstance(size, list):  # what a file does not tell is a square
        size = patch * round((len(tensors['visual.positional_embedding']) - 1) ** 0.5)
    return {'size': size, 'patch_size': patch, 'stem': 'patchify', 'pool': 'class', 'width': width,
            'depth': _depth(tensors, 'visual.transformer.resblocks'),
            'heads': _heads(width, config.get('head_width', HEAD_WIDTH)), 'activation': activation,
            'mlp_width': len(tensors['visual.transformer.resblocks.0.mlp.c_fc.weight'])}


def _text(tensors, config, activation):
    vocab_size, width = tensors['token_embedding.weight'].shape
    return {'length': len(tensors['positional_embedding']), 'vocab_size': vocab_size, 'width': width,
            'depth': _depth(tensors, 'transformer.resblocks'),
            'heads': config.get('heads') or _heads(width, HEAD_WIDTH), 'activation': activation,
            'mlp_width': len(tensors['transformer.resblocks.0.mlp.c_fc.weight']), 'causal': True, 'pool': 'end'}


def _bert(tensors):
    vocab_size, width = tensors['bert.embeddings.word_embeddings.weight'].shape
    return {**BERT, 'length': len(tensors['bert.embeddings.position_embeddings.weight']), 'vocab_size': vocab_size,
            'width': width, 'depth': _depth(tensors, 'bert.encoder.layer'), 'heads': _heads(width, HEAD_WIDTH),
            'mlp_width': len(tensors['bert.encoder.layer.0.intermediate.dense.weight']), 'activation': 'gelu',
            'norm_eps': 1e-12}


def _heads(width, head_width):
    return max(1, width // head_width)


def _depth(tensors, prefix):
    found = [re.match(rf'{re.escape(prefix)}\.(\d+)\.', name) for name in tensors]
    return max((int(match.group(1)) for match in found if match), default=-1) + 1
