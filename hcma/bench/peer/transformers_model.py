"""``CLIPModel`` of transformers with the same weights; for models that it can describe."""
import torch
from torch import nn
from transformers import CLIPConfig, CLIPModel

from hcma.bench.peer.torch_model import Pixels
from hcma.interop.hugging_face import class_image_rules, text_rules
from hcma.interop.rules import Layout, Rule, unapply


class Model(nn.Module):
    """``forward(image, ids, length)`` gives the loss; padding after the end token is hidden by the order."""

    def __init__(self, recipe, arrays):
        super().__init__()
        image, text, shared = recipe.model.image, recipe.model.text, recipe.model.embed_width
        self.clip = CLIPModel(CLIPConfig(
            vision_config={**_tower(image, shared), 'image_size': image.size, 'patch_size': image.patch_size},
            text_config={**_tower(text, shared), 'vocab_size': text.vocab_size, 'max_position_embeddings': text.length,
                         'eos_token_id': text.vocab_size - 1, 'bos_token_id': text.vocab_size - 2, 'pad_token_id': 0},
            projection_dim=shared)).train()
        layout = Layout('', {}, {}, shared, [*class_image_rules(image.depth), *text_rules(text.depth), Rule(
            'text_tower.to_sentence.linear.weight', ('text_projection.weight',))])
        tensors = {name: torch.from_numpy(array) for name, array in unapply(layout, arrays).items()}
        tensors['logit_scale'] = torch.tensor(arrays['log_scale'][0])
        self.clip.load_state_dict(tensors)
        self.pixels = Pixels(image)

    def images(self, image):
        return self.clip.get_image_features(pixel_values=self.pixels(image))

    def texts(self, ids, length):
        return self.clip.get_text_features(input_ids=ids)

    def forward(self, image, ids, length):
        return self.clip(input_ids=ids, pixel_values=self.pixels(image), return_loss=True).loss


def _tower(section, shared):
    return {'hidden_size': section.width, 'num_hidden_layers': section.depth, 'num_attention_heads': section.heads,
            'intermediate_size': section.mlp_width, 'hidden_act': section.activation,
            'layer_norm_eps': section.norm_eps, 'projection_dim': shared}
