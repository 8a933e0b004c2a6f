"""The image encoder: pictures to patch features and one global feature."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.models.convolution import Convolution
from hcma.models.directions import patch_directions
from hcma.models.layers import LayerNorm, Linear, swap_middle, weighted_sum
from hcma.models.lora import freeze, linear_of
from hcma.models.transformer import MLP, CrossAttention, blocks_of


class PixelNorm(nn.Cell):
    """Pictures (B, H, W, 3) in uint8 to float32 with mean and deviation of the channels removed, inside the graph.

    Pictures come channels-last: that is how the decoder writes them and how both stems read them, and bytes
    are a quarter of the traffic to the device. Rows of ``width`` pixels take less time than single pixels.
    """

    def __init__(self, mean, deviation, width):
        super().__init__()
        deviation = np.array(deviation, np.float32)
        self.scale = Tensor(np.tile(1 / (255 * deviation), width))
        self.shift = Tensor(np.tile(-np.array(mean, np.float32) / deviation, width))
        self.add = ops.BiasAdd()

    def construct(self, image_BHW3):
        rows = ops.cast(image_BHW3, ms.float32).reshape(-1, self.scale.shape[0])
        return self.add(rows * self.scale, self.shift).reshape(image_BHW3.shape)


class ConvolutionStem(nn.Cell):
    """Overlapping 3 x 3 convolutions, each halving the side, then one to the width: small models need the overlap.

    There is no norm between them: started as He et al. (2015) advise, four convolutions train without, and learn
    attribute binding sooner than with a layer norm over the channels, which discards every pixel's contrast.
    """

    def __init__(self, config, init):
        super().__init__()
        pixels, inputs, convolutions = config.pixels, 3, []
        for outputs in config.stem_channels:
            convolutions.append(Convolution(pixels, inputs, outputs, 2, init, relu=True))
            pixels, inputs = tuple(side // 2 for side in pixels), outputs  # patch_size divides both
        self.convolutions = nn.CellList(convolutions)
        self.out = Convolution(pixels, inputs, config.width, 1, init)

    def construct(self, x):
        x = x.reshape(x.shape[0], -1, 3)
        for convolution in self.convolutions:
            x = convolution(x)
        return self.out(x)


class PatchStem(nn.Cell):
    """Non-overlapping patches as one product (a strided Conv2d is 100 times slower on CPU)."""

    def __init__(self, config, init):
        super().__init__()
        (self.rows, self.columns), self.patch, self.width = config.grid, config.patch_size, config.width
        self.project = Linear(3 * self.patch * self.patch, self.width, init, bias=config.patch_bias)
        self.swap = swap_middle()

    def construct(self, x):
        batch = x.shape[0]
        cut = self.swap(x.reshape(batch * self.rows, self.patch, self.columns, 3 * self.patch))
        return self.project(cut.reshape(-1, 3 * self.patch * self.patch)).reshape(batch, -1, self.width)


class AttentionPool(nn.Cell):
    """Patches (B, P, D) to one feature (B, D): what a learned query finds among them, plus an MLP of it.

    The multi-head attention pooling of Set Transformer (Lee et al., 2019), as SigLIP has it.
    """

    def __init__(self, config, init):
        super().__init__()
        self.query = init.normal(1, 1, config.width)
        self.attention = CrossAttention(config.width, config.heads, init)
        self.norm = LayerNorm(config.width, config.norm_eps)
        self.mlp = MLP(config.width, config.mlp_width, config.activation, init)

    def construct(self, patch_BPD):
        query = ops.broadcast_to(self.query, (patch_BPD.shape[0], 1, patch_BPD.shape[2]))
        x = self.attention(query, patch_BPD)[0]
        return (x + self.mlp(self.norm(x)))[:, 0]


class ImageEncoder(nn.Cell):
    """Pictures (B, H, W, 3) uint8 to patches (B, P, D) and global (B, D), both after the final layer norm.

    With ``kept`` (B, K) int32 only these patches of each picture pass the blocks and come out, (B, K, D).
    """

    def __init__(self, config, init, lora=None):
        super().__init__()
        linear = linear_of(config.train, lora, init)
        self.pixels = PixelNorm(config.mean, config.deviation, config.pixels[1])
        self.stem = (ConvolutionStem if config.stem == 'convolution' else PatchStem)(config, init)
        self.has_class = config.pool == 'class'
        positions = config.patches + int(self.has_class)
        self.places = Tensor(np.arange(positions, dtype=np.int32))
        self.position = init.normal(1, positions, config.width)
        if self.has_class:
            self.class_embedding = init.normal(1, 1, config.width)
            self.input_norm = LayerNorm(config.width, config.norm_eps)
        self.blocks = blocks_of(config, init, lambda: patch_directions(
            config.grid, config.heads, self.has_class) if config.directions else None, linear)
        self.norm = LayerNorm(config.width, config.norm_eps)
        self.attention_pool = AttentionPool(config, init) if config.pool == 'attention' else None
        freeze(self, config.train)

    def construct(self, image_BHW3, kept_BK=None):
        x, chosen = self.stem(self.pixels(image_BHW3)), None
        if self.has_class:
            first = ops.broadcast_to(self.class_embedding, (x.shape[0], 1, x.shape[2]))
            x = self.input_norm(ops.concat((first, x), 1) + self.position)
        else:
            x = x + self.position
        if kept_BK is not None:
            chosen = self._chosen(kept_BK)
            x = ops.bmm(chosen, x)
        for block in self.blocks:
            x = block(x, None, chosen)
        x = self.norm(x)
        if self.has_class:
            return x[:, 1:], x[:, 0]
        if self.attention_pool is not None:
            return x, self.attention_pool(x)
        return x, weighted_sum(ops.full(x.shape[:2], 1 / x.shape[1], dtype=x.dtype), x)

    def _chosen(self, kept_BK):
        """One row of zeros and a one for each kept patch, (B, K, P); the class token is kept as well.

        A product with it picks the patches: on CPU the gradient of a gather takes longer.
        """
        if self.has_class:
            kept_BK = ops.concat((ops.zeros_like(kept_BK[:, :1]), kept_BK + 1), 1)
        return ops.cast(ops.equal(ops.expand_dims(kept_BK, -1), self.places), ms.float32)
