"""The recipes that memory is measured on: those that the constants are fitted to, and those that are reported."""

FLAT, TWO = ['sentence_global'], ['sentence_global', 'word_patch']
THREE = [*TWO, 'phrase_region']


def _recipe(batch, image=None, text=None, levels=TWO, preset='small', **model):
    return {'model': {'preset': preset, 'image': image or {}, 'text': text or {}, **model}, 'loss': {'levels': levels},
            'train': {'epochs': 1, 'batch_size': batch}}


def _vit(size, patch, width, depth, **keys):
    return {'size': size, 'stem': 'patchify', 'patch_size': patch, 'pool': 'class', 'stem_channels': [],
            **_transformer(width, depth), **keys}


def _text(length, width, depth, vocabulary=1000, **keys):
    return {'length': length, 'vocab_size': vocabulary, 'causal': True, 'pool': 'end', **_transformer(width, depth),
            **keys}


def _transformer(width, depth):
    return {'width': width, 'depth': depth, 'heads': max(width // 64, 1), 'mlp_width': 4 * width,
            'activation': 'quick_gelu', 'directions': False}


CALIBRATION = {
    'no blocks': _recipe(64, {'depth': 0}, {'depth': 0}, FLAT),
    'no blocks, large batch': _recipe(512, {'depth': 0}, {'depth': 0}),
    'no blocks, large pictures': _recipe(128, {'depth': 0, 'size': 96}, {'depth': 0}, FLAT),
    'small': _recipe(64),
    'small, large batch': _recipe(256),
    'small, deep': _recipe(8, {'depth': 4}, {'depth': 4}, FLAT),
    'picture transformer': _recipe(64, _vit(64, 8, 256, 4), _text(24, 128, 1)),
    'picture transformer, larger batch': _recipe(128, _vit(64, 8, 256, 4), _text(24, 128, 1)),
    **{f'picture transformer, {name}': _recipe(64, _vit(64, 8, 256, 4, activation=name), _text(24, 128, 1))
       for name in ('relu', 'gelu')},
    'many patches': _recipe(32, _vit(64, 4, 128, 2), _text(24, 64, 1)),
    'long texts': _recipe(64, _vit(32, 16, 64, 1), _text(64, 256, 4)),
    'many parameters': _recipe(4, _vit(32, 16, 768, 3), _text(16, 512, 2, 20000), FLAT),
    'frozen and additions': _recipe(64, _vit(64, 8, 256, 4, train='frozen'), _text(24, 256, 2, train='lora')),
    'matching': _recipe(64, _vit(64, 8, 256, 4), _text(24, 128, 1), fusion={'depth': 1}),
    'small, matching': _recipe(96, fusion={'depth': 1}),
    'small, regions': _recipe(96, levels=THREE),
    **{f'long texts, {train}': _recipe(32, {'depth': 0}, _text(64, 256, 4, train=train), FLAT)
       for train in ('all', 'lora', 'frozen')},
    **{f'long thin texts, {train}': _recipe(4, {'depth': 0}, _text(64, 64, 12, train=train), FLAT)
       for train in ('all', 'lora', 'frozen')},
    'longer texts, frozen': _recipe(64, {'depth': 0}, _text(64, 256, 4, train='frozen'), FLAT),
}
REPORTED = {
    'small, two blocks each, regions and matching, batch 96': _recipe(96, {'depth': 2}, {'depth': 2}, THREE,
                                                                      fusion={'depth': 1}),
    'ViT-S/16 at 96 pixels, text 3 × 256, batch 32': _recipe(32, _vit(96, 16, 384, 12), _text(32, 256, 3, 8000)),
    'CLIP ViT-B/32, picture side frozen, LoRA on the text, batch 16': _recipe(
        16, {'train': 'frozen'}, {'train': 'lora'}, preset='vit_b32'),
    'ViT of 5 × 192 at 112 pixels, LoRA on the text, regions, batch 48': _recipe(
        48, _vit(112, 16, 192, 5, activation='gelu'), _text(20, 192, 5, 4000, train='lora'), THREE),
    'CLIP ViT-B/32, all trained, batch 8': _recipe(8, levels=FLAT, preset='vit_b32'),
    'CLIP ViT-B/32 with 6 blocks each, text frozen, batch 24': _recipe(
        24, {'depth': 6}, {'depth': 6, 'train': 'frozen'}, preset='vit_b32'),
    'convolutions at 64 pixels, 3 × 96, text 3 × 160 with GELU, batch 80': _recipe(
        80, {'size': 64, 'width': 96, 'depth': 3, 'mlp_width': 288, 'stem_channels': [24, 48, 96]},
        _text(40, 160, 3, 3000, activation='gelu', heads=5)),
}
