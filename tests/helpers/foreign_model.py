"""What weights in Hugging Face's layouts of CLIP, Chinese-CLIP and SigLIP compute, in float64 NumPy.

Written from the models' papers and definitions, and sharing nothing with hcma: what a conversion must reproduce.
"""
import numpy as np
from scipy.special import erf

MEAN, DEVIATION = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
ACTIVATIONS = {'quick_gelu': lambda x: x / (1 + np.exp(-1.702 * x)), 'gelu': lambda x: x * (1 + erf(x / 2 ** 0.5)) / 2,
               'gelu_pytorch_tanh': lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))}


class Reference:
    """What the weights compute, in float64: ``image(pictures)``, ``text(ids, lengths)`` (normalised), ``logits``."""

    def __init__(self, config, tensors):
        self.config, self.kind = config, config['model_type']
        self.t = {name: array.astype(np.float64) for name, array in tensors.items()}

    def logits(self, pictures, ids, lengths):
        """(texts, images) logits."""
        bias = self.t.get('logit_bias', np.zeros(1))
        cosines = self.text(ids, lengths) @ self.image(pictures).T
        return np.exp(self.t['logit_scale'].reshape(-1)) * cosines + bias

    def image(self, pictures):
        """Pictures (B, S, S, 3) uint8 to normalised features."""
        config, top = self.config['vision_config'], 'vision_model.'
        mean, deviation = (0.5, 0.5) if self.kind == 'siglip' else (MEAN, DEVIATION)
        x = (pictures / 255 - mean) / deviation
        size, patch = config['image_size'], config['patch_size']
        kernel = self.t[f'{top}embeddings.patch_embedding.weight']
        x = np.stack([np.einsum('bijc,dcij->bd', x[:, i:i + patch, j:j + patch], kernel)
                      for i in range(0, size, patch) for j in range(0, size, patch)], 1)
        x = x + self.t.get(f'{top}embeddings.patch_embedding.bias', 0)
        if self.kind != 'siglip':
            first = np.broadcast_to(self.t[f'{top}embeddings.class_embedding'], (len(x), 1, x.shape[2]))
            x = np.concatenate((first, x), 1)
        x = x + self.t[f'{top}embeddings.position_embedding.weight']
        if self.kind != 'siglip':
            x = self._norm(f'{top}pre_layrnorm', x, config)
        x = self._norm(f'{top}post_layernorm', self._layers(f'{top}encoder.layers', x, config, 0.0), config)
        if self.kind == 'siglip':
            return _unit(self._head(x, config))
        return _unit(x[:, 0] @ self.t['visual_projection.weight'].T)

    def text(self, ids, lengths):
        """Ids (B, L) of ``lengths`` tokens to normalised features."""
        config, top, rows = self.config['text_config'], 'text_model.', np.arange(len(ids))
        count = ids.shape[1]
        seen = np.where(np.arange(count) < lengths[:, None], 0.0, -np.inf)[:, None, None]
        if self.kind == 'chinese_clip':
            return _unit(self._bert(ids, seen, config)[:, 0] @ self.t['text_projection.weight'].T)
        x = self.t[f'{top}embeddings.token_embedding.weight'][ids]
        x = x + self.t[f'{top}embeddings.position_embedding.weight'][:count]
        mask = 0.0 if self.kind == 'siglip' else np.triu(np.full((count, count), -np.inf), 1)
        x = self._norm(f'{top}final_layer_norm', self._layers(f'{top}encoder.layers', x, config, mask), config)
        if self.kind == 'siglip':
            return _unit(self._linear(f'{top}head', x[:, -1]))
        return _unit(x[rows, lengths - 1] @ self.t['text_projection.weight'].T)

    def _linear(self, name, x):
        return x @ self.t[f'{name}.weight'].T + self.t[f'{name}.bias']

    def _norm(self, name, x, config):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + config['layer_norm_eps'])
        return x * self.t[f'{name}.weight'] + self.t[f'{name}.bias']

    def _attend(self, query, key, value, heads, mask):
        def split(x):
            return x.reshape(len(x), -1, heads, x.shape[2] // heads).transpose(0, 2, 1, 3)
        query, key, value = split(query), split(key), split(value)
        scores = query @ key.transpose(0, 1, 3, 2) / query.shape[3] ** 0.5 + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = weights / weights.sum(-1, keepdims=True) @ value
        return mixed.transpose(0, 2, 1, 3).reshape(len(mixed), mixed.shape[2], -1)

    def _layers(self, prefix, x, config, mask):
        act, heads = ACTIVATIONS[config['hidden_act']], config['num_attention_heads']
        for number in range(config['num_hidden_layers']):
            name = f'{prefix}.{number}'
            y = self._norm(f'{name}.layer_norm1', x, config)
            parts = [self._linear(f'{name}.self_attn.{part}_proj', y) for part in 'qkv']
            x = x + self._linear(f'{name}.self_attn.out_proj', self._attend(*parts, heads, mask))
            y = act(self._linear(f'{name}.mlp.fc1', self._norm(f'{name}.layer_norm2', x, config)))
            x = x + self._linear(f'{name}.mlp.fc2', y)
        return x

    def _bert(self, ids, mask, config):
        top = 'text_model.embeddings.'
        x = self.t[f'{top}word_embeddings.weight'][ids] + self.t[f'{top}token_type_embeddings.weight'][0]
        x = x + self.t[f'{top}position_embeddings.weight'][:ids.shape[1]]
        x = self._norm(f'{top}LayerNorm', x, config)
        for number in range(config['num_hidden_layers']):
            name = f'text_model.encoder.layer.{number}'
            parts = [self._linear(f'{name}.attention.self.{part}', x) for part in ('query', 'key', 'value')]
            mixed = self._attend(*parts, config['num_attention_heads'], mask)
            x = self._norm(f'{name}.attention.output.LayerNorm',
                           x + self._linear(f'{name}.attention.output.dense', mixed), config)
            y = ACTIVATIONS[config['hidden_act']](self._linear(f'{name}.intermediate.dense', x))
            x = self._norm(f'{name}.output.LayerNorm', x + self._linear(f'{name}.output.dense', y), config)
        return x

    def _head(self, x, config):
        head = 'vision_model.head.'
        weights = np.split(self.t[f'{head}attention.in_proj_weight'], 3)
        biases = np.split(self.t[f'{head}attention.in_proj_bias'], 3)
        probe = np.broadcast_to(self.t[f'{head}probe'], (len(x), 1, x.shape[2]))
        parts = [rows @ weight.T + bias for rows, weight, bias in zip((probe, x, x), weights, biases)]
        x = self._linear(f'{head}attention.out_proj', self._attend(*parts, config['num_attention_heads'], 0.0))
        y = ACTIVATIONS[config['hidden_act']](self._linear(f'{head}mlp.fc1', self._norm(f'{head}layernorm', x, config)))
        return (x + self._linear(f'{head}mlp.fc2', y))[:, 0]


def _unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)
