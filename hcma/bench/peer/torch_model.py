"""The same networks in plain PyTorch, under the same names of parameters.

What PyTorch has is used: convolutions, scaled dot-product attention, layer norm, normalise. Pools and levels are those
of the presets: patches pooled by class token or mean; sentence–global and word–patch.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {'relu': F.relu, 'gelu': F.gelu, 'gelu_tanh': lambda x: F.gelu(x, approximate='tanh'),
               'quick_gelu': lambda x: x * torch.sigmoid(1.702 * x)}
EXCLUDED = -1e4


class Pixels(nn.Module):
    """Pictures (B, H, W, 3) uint8 to (B, 3, H, W) without the mean and deviation of their channels."""

    def __init__(self, config):
        super().__init__()
        self.register_buffer('mean', torch.tensor(config.mean) * 255, persistent=False)
        self.register_buffer('deviation', torch.tensor(config.deviation) * 255, persistent=False)

    def forward(self, image):
        return ((image.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, bias, is_causal):
        batch, rows, width = x.shape
        query, key, value = self.query_key_value(x).view(batch, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=is_causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, rows, width))


class Directions(nn.Module):
    def __init__(self, index, kinds, heads):
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads, kinds))
        self.register_buffer('index', torch.from_numpy(index), persistent=False)

    def forward(self):
        return self.table[:, self.index].unsqueeze(0)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up, self.down = nn.Linear(config.width, config.mlp_width), nn.Linear(config.mlp_width, config.width)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    def __init__(self, config, directions):
        super().__init__()
        self.attention = Attention(config.width, config.heads)
        self.attention_norm, self.mlp_norm = (nn.LayerNorm(config.width, config.norm_eps) for _ in range(2))
        self.mlp = MLP(config)
        self.directions = Directions(*directions, config.heads) if config.directions else None

    def forward(self, x, bias=None, is_causal=False):
        if self.directions is not None:
            bias = self.directions() if bias is None else self.directions() + bias
        x = x + self.attention(self.attention_norm(x), bias, is_causal)
        return x + self.mlp(self.mlp_norm(x))


class Convolutions(nn.Module):
    def __init__(self, config):
        super().__init__()
        widths = [3, *config.stem_channels]
        self.convolutions = nn.ModuleList([nn.Conv2d(*pair, 3, 2, 1) for pair in zip(widths, widths[1:])])
        self.out = nn.Conv2d(widths[-1], config.width, 3, 1, 1)

    def forward(self, x):
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
        return self.out(x)


class Patches(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.project = nn.Conv2d(3, config.width, config.patch_size, config.patch_size, bias=config.patch_bias)

    def forward(self, x):
        return self.project(x)


class ImageEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.has_class = config.pool == 'class'
        self.pixels = Pixels(config)
        self.stem = (Convolutions if config.stem == 'convolution' else Patches)(config)
        self.position = nn.Parameter(torch.empty(1, config.patches + self.has_class, config.width))
        if self.has_class:
            self.class_embedding = nn.Parameter(torch.empty(1, 1, config.width))
            self.input_norm = nn.LayerNorm(config.width, config.norm_eps)
        directions = _patch_directions(config.grid, self.has_class)
        self.blocks = nn.ModuleList([Block(config, directions) for _ in range(config.depth)])
        self.norm = nn.LayerNorm(config.width, config.norm_eps)

    def forward(self, image):
        x = self.pixels(image)
        x = self.stem(x).flatten(2).transpose(1, 2)
        if self.has_class:
            x = self.input_norm(torch.cat([self.class_embedding.expand(len(x), -1, -1), x], 1) + self.position)
        else:
            x = x + self.position
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return (x[:, 1:], x[:, 0]) if self.has_class else (x, x.mean(1))


class TextEncoder(nn.Module):
    def __init__(self, config, vocab_size):
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocab_size, config.width))
        self.position = nn.Parameter(torch.empty(1, config.length, config.width))
        self.is_causal, self.pool = config.causal, config.pool
        place = np.arange(config.length)
        directions = place[None] - place[:, None] + config.length - 1, 2 * config.length - 1
        self.blocks = nn.ModuleList([Block(config, directions) for _ in range(config.depth)])
        self.norm = nn.LayerNorm(config.width, config.norm_eps)

    def forward(self, ids, length):
        place, length = torch.arange(ids.shape[1]), length[:, None]
        present, words = place < length, (place >= 1) & (place < length - 1)
        # What comes after the end is hidden by the order already where that counts.
        bias = None if self.is_causal else ((~present) * EXCLUDED)[:, None, None]
        x = F.embedding(ids, self.embedding) + self.position
        for block in self.blocks:
            x = block(x, bias, self.is_causal)
        x = self.norm(x)
        if self.pool == 'end':
            return x, words, x[torch.arange(len(x)), length[:, 0] - 1]
        return x, words, (x * present[..., None]).sum(1) / length


class Projection(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x):
        return F.normalize(self.linear(x), dim=-1)


class ImageTower(nn.Module):
    def __init__(self, config, levels):
        super().__init__()
        self.encoder = ImageEncoder(config.image)
        self.to_global = Projection(config.image.width, config.embed_width)
        self.to_patch = Projection(config.image.width, config.word_embed_width) if 'word_patch' in levels else None

    def forward(self, image):
        patch, whole = self.encoder(image)
        return (self.to_global(whole),) + (() if self.to_patch is None else (self.to_patch(patch),))


class TextTower(nn.Module):
    def __init__(self, config, levels):
        super().__init__()
        self.encoder = TextEncoder(config.text, config.text.vocab_size)
        self.to_sentence = Projection(config.text.width, config.embed_width)
        self.to_word = Projection(config.text.width, config.word_embed_width) if 'word_patch' in levels else None

    def forward(self, ids, length):
        word, mask, sentence = self.encoder(ids, length)
        return (self.to_sentence(sentence),) + (() if self.to_word is None else (self.to_word(word), mask))


class Model(nn.Module):
    """Both towers; ``forward(image, ids, length)`` gives the loss."""

    def __init__(self, recipe, arrays):
        super().__init__()
        levels = recipe.loss.levels
        self.image_tower, self.text_tower = (tower(recipe.model, levels) for tower in (ImageTower, TextTower))
        self.log_scale = nn.Parameter(torch.empty(len(levels)))
        self.load_state_dict({_own_name(name): torch.from_numpy(_own_form(name, array))
                              for name, array in arrays.items()})

    def images(self, image):
        return self.image_tower(image)

    def texts(self, ids, length):
        return self.text_tower(ids, length)

    def forward(self, image, ids, length):
        whole, *patch = self.images(image)
        sentence, *word = self.texts(ids, length)
        scale = self.log_scale.exp()
        loss = contrast(scale[0] * sentence @ whole.T)
        return loss + contrast(scale[1] * late_interaction(*word, *patch)) if patch else loss


def contrast(score):
    """Both directions' mean cross entropy of scores (texts, images)."""
    own = torch.arange(len(score))
    return (F.cross_entropy(score, own) + F.cross_entropy(score.T, own)) / 2


def late_interaction(word, mask, patch):
    """Half the mean over words of their best patch plus half the mean over patches of their best word."""
    cosine = torch.einsum('tle,ipe->tilp', word, patch)
    best_patch = cosine.max(-1).values
    best_word = cosine.masked_fill(~mask[:, None, :, None], -math.inf).max(2).values
    by_word = (best_patch * mask[:, None]).sum(-1) / mask.sum(-1, keepdim=True)
    return 0.5 * (by_word + best_word.mean(-1))


def _own_name(name):
    """PyTorch's norms have weight and bias."""
    return name.replace('.gamma', '.weight').replace('.beta', '.bias')


def _own_form(name, array):
    if '.stem.' in name and name.endswith('weight'):
        if '.project.' in name:  # (D, p p 3)
            side = math.isqrt(array.shape[1] // 3)
            array = array.reshape(-1, side, side, 3).transpose(0, 3, 1, 2)
        else:  # (9 inputs, outputs)
            array = array.reshape(3, 3, -1, array.shape[1]).transpose(3, 2, 0, 1)
    return np.ascontiguousarray(array)


def _patch_directions(grid, has_class):
    """Which direction, of how many, each patch has from each; the last is that of the class token."""
    rows, columns = grid
    row, column = np.divmod(np.arange(rows * columns), columns)
    kinds = (2 * rows - 1) * (2 * columns - 1)
    down, right = row[None] - row[:, None] + rows - 1, column[None] - column[:, None] + columns - 1
    index = down * (2 * columns - 1) + right
    if has_class:
        index = np.pad(index, ((1, 0), (1, 0)), constant_values=kinds)
    return index, kinds + 1
