"""open_clip's ``CLIP`` with the same weights; for models that it can describe."""
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from torch import nn

from hcma.bench.peer.torch_model import Pixels
from hcma.interop.openai import layout_of
from hcma.interop.rules import unapply


class Model(nn.Module):
    """``forward(image, ids, length)`` gives the loss; the end token has the largest id."""

    def __init__(self, recipe, arrays):
        super().__init__()
        image, text = recipe.model.image, recipe.model.text
        self.clip = CLIP(
            recipe.model.embed_width,
            CLIPVisionCfg(layers=image.depth, width=image.width, head_width=image.width // image.heads,
                          mlp_ratio=image.mlp_width / image.width, patch_size=image.patch_size, image_size=image.size),
            CLIPTextCfg(context_length=text.length, vocab_size=text.vocab_size, width=text.width, heads=text.heads,
                        layers=text.depth, mlp_ratio=text.mlp_width / text.width),
            quick_gelu=image.activation == 'quick_gelu')
        own = {name: tensor.numpy() for name, tensor in self.clip.state_dict().items()}
        layout = layout_of(own, {'quick_gelu': True}, None, 'open_clip')
        tensors = {name: torch.from_numpy(array) for name, array in unapply(layout, arrays).items()}
        tensors['logit_scale'] = torch.tensor(arrays['log_scale'][0])
        self.clip.load_state_dict(tensors)
        self.loss = ClipLoss()
        self.pixels = Pixels(image)

    def images(self, image):
        return self.clip.encode_image(self.pixels(image), normalize=True)

    def texts(self, ids, length):
        return self.clip.encode_text(ids, normalize=True)

    def forward(self, image, ids, length):
        return self.loss(*self.clip(self.pixels(image), ids))
