"""Model sizes by name; a recipe picks one with ``model.preset`` and may override any of its values."""

PRESETS = {
    # For unit tests: compiles in a second.
    'tiny': {
        'image': {'size': 16, 'width': 16, 'depth': 1, 'heads': 2, 'mlp_width': 32,
                  'stem': 'convolution', 'stem_channels': [4, 8], 'pool': 'mean', 'activation': 'relu',
                  'directions': True},
        'text': {'length': 8, 'width': 16, 'depth': 1, 'heads': 2, 'mlp_width': 32,
                 'causal': False, 'pool': 'mean', 'activation': 'relu', 'directions': True,
                 'vocab_size': 300},
        'embed_width': 16, 'word_embed_width': 8,
    },
    # For research on a CPU: learns attribute binding on generated scenes in about two minutes.
    'small': {
        'image': {'size': 48, 'width': 64, 'depth': 1, 'heads': 4, 'mlp_width': 128,
                  'stem': 'convolution', 'stem_channels': [16, 32, 64], 'pool': 'mean', 'activation': 'relu',
                  'directions': True},
        'text': {'length': 24, 'width': 64, 'depth': 1, 'heads': 4, 'mlp_width': 128,
                 'causal': False, 'pool': 'mean', 'activation': 'relu', 'directions': True,
                 'vocab_size': 1000},
        'embed_width': 128, 'word_embed_width': 64,
    },
    # The shapes of CLIP ViT-B/32 and ViT-B/16.
    'vit_b32': {
        'image': {'size': 224, 'width': 768, 'depth': 12, 'heads': 12, 'mlp_width': 3072,
                  'stem': 'patchify', 'patch_size': 32, 'pool': 'class', 'activation': 'quick_gelu'},
        'text': {'length': 77, 'width': 512, 'depth': 12, 'heads': 8, 'mlp_width': 2048,
                 'causal': True, 'pool': 'end', 'activation': 'quick_gelu', 'vocab_size': 49408},
        'embed_width': 512, 'word_embed_width': 256,
    },
    'vit_b16': {
        'image': {'size': 224, 'width': 768, 'depth': 12, 'heads': 12, 'mlp_width': 3072,
                  'stem': 'patchify', 'patch_size': 16, 'pool': 'class', 'activation': 'quick_gelu'},
        'text': {'length': 77, 'width': 512, 'depth': 12, 'heads': 8, 'mlp_width': 2048,
                 'causal': True, 'pool': 'end', 'activation': 'quick_gelu', 'vocab_size': 49408},
        'embed_width': 512, 'word_embed_width': 256,
    },
}
