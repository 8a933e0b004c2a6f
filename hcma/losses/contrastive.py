"""The symmetric contrastive loss (InfoNCE, van den Oord et al., 2018; as in CLIP, Radford et al., 2021)."""
import mindspore as ms
from mindspore import ops


def positives(group_BG):
    """Which pairs of rows belong together, (B, B) of 0 and 1: those that share any of their G group ids.

    The columns of ``group_BG`` (B, G) int64 are kinds of identity, such as the same image and the same caption.
    """
    same = ops.equal(ops.expand_dims(group_BG, 1), ops.expand_dims(group_BG, 0))
    return ops.amax(ops.cast(same, ms.float32), -1)


def info_nce(score_BB, positive_BB):
    """Mean over both directions of the cross entropy between the softmax of the scores and the positives.

    ``score_BB`` (B_text, B_image) is already divided by the temperature. A row's positives share its target evenly,
    so a picture that comes twice is never its own negative. Returns a float32 scalar.
    """
    score = ops.cast(score_BB, ms.float32)
    return 0.5 * (_one_way(score, positive_BB) + _one_way(score.swapaxes(0, 1), positive_BB.swapaxes(0, 1)))


def _one_way(score, positive):
    likelihood = (ops.log_softmax(score, -1) * positive).sum(-1) / positive.sum(-1)
    return -likelihood.mean()
