"""The hierarchical loss: a weighted sum of one contrastive loss per level."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.losses.contrastive import info_nce, positives


class HierarchicalLoss(nn.Cell):
    """``sum_k weight_k * InfoNCE(score_k / temperature_k)`` of a model's levels, in float32.

    ``construct(image (B, S, S, 3) uint8, ids (B, L) int32, length (B,) int32, group (B, G) int64)`` gives the loss,
    a scalar, and the unweighted loss of every level, (levels,).
    """

    def __init__(self, model, weights):
        super().__init__(auto_prefix=False)
        self.model = model
        self.part_names = tuple(f'loss_{level}' for level in model.levels)
        self.weight = Tensor(np.array(weights, np.float32))

    def construct(self, image_BSS3, ids_BL, length_B, group_BG):
        positive_BB = positives(group_BG)
        losses = ()
        for score_BB in self.model(image_BSS3, ids_BL, length_B):
            losses = losses + (info_nce(score_BB, positive_BB),)
        by_level = ops.cast(ops.stack(losses), ms.float32)
        return (by_level * self.weight).sum(), by_level
