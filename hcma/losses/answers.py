"""The loss of visual question answering: cross entropy of the answers."""
import mindspore as ms
from mindspore import nn, ops

from hcma.models.vqa import ImageFeatures


class AnswerLoss(nn.Cell):
    """``construct(image, ids (B, L) int32, length (B,) int32, answer (B,) int32)`` gives the loss and ``part_names``.

    ``image`` is pictures (B, H, W, 3) uint8, or with ``features`` what ``ImageFeatures`` made of them,
    (B, 1 + P, D). The parts are the share of right answers in the batch, (1,).
    """

    part_names = ('accuracy',)

    def __init__(self, model, features):
        super().__init__(auto_prefix=False)
        self.model = model
        self.look = None if features else ImageFeatures(model.encoders.image_tower.encoder)

    def construct(self, image, ids_BL, length_B, answer_B):
        image_BND = image if self.look is None else self.look(image)
        score_BA = ops.cast(self.model(image_BND, ids_BL, length_B), ms.float32)
        right_BA = ops.cast(ops.equal(ops.arange(score_BA.shape[1]), ops.expand_dims(answer_B, 1)), ms.float32)
        loss = -(ops.log_softmax(score_BA, -1) * right_BA).sum(-1).mean()
        found = ops.equal(ops.cast(score_BA.argmax(-1), ms.int32), answer_B)
        return loss, ops.cast(found, ms.float32).mean().reshape(1)
