"""The symmetric contrastive loss (InfoNCE, van den Oord et al., 2018; as in CLIP, Radford et al., 2021)."""
import mindspore as ms
from mindspore import ops

# Added to a score that takes no part in a softmax.
EXCLUDED = -1e4


def positives(group_BG):
    """Which pairs of rows belong together, (B, B) of 0 and 1: those that share any of their G group ids.

    The columns of ``group_BG`` (B, G) int64 are kinds of identity, such as the same image and the same caption.
    """
    same = ops.equal(ops.expand_dims(group_BG, 1), ops.expand_dims(group_BG, 0))
    return ops.amax(ops.cast(same, ms.float32), -1)


def info_nce(score_BB, positive_BB, negative_B=None, present_B=None):
    """Mean over both directions of the cross entropy between the softmax of the scores and the positives.

    ``score_BB`` (B_text, B_image) is already divided by the temperature. A row's positives share its target evenly,
    so a picture that comes twice is never its own negative. ``negative_B`` scores each image with a text that is
    wrong for it: one more candidate among the texts (as in NegCLIP, Yuksekgonul et al., 2023, but only for its own
    image), where ``present_B`` is 1. Returns a float32 scalar.
    """
    score = ops.cast(score_BB, ms.float32)
    by_image, positive = score.swapaxes(0, 1), positive_BB.swapaxes(0, 1)
    if negative_B is not None:
        wrong = ops.cast(negative_B, ms.float32) * present_B + (1 - present_B) * EXCLUDED
        by_image = ops.concat((by_image, wrong.reshape(-1, 1)), 1)
        positive = ops.concat((positive, ops.zeros_like(wrong).reshape(-1, 1)), 1)
    return 0.5 * (_one_way(score, positive_BB) + _one_way(by_image, positive))


def _one_way(score, positive):
    likelihood = (ops.log_softmax(score, -1) * positive).sum(-1) / positive.sum(-1)
    return -likelihood.mean()


def word_contrast(score_BLL, mask_BL):
    """The contrast between the words of one caption, symmetric: word l belongs to context l (``InPair``).

    ``score_BLL`` (words, contexts) is divided by the temperature, ``mask_BL`` 1 on words. The mean over the batch's
    words, a float32 scalar; 0 where there is none.
    """
    score = ops.cast(score_BLL, ms.float32)
    own = (ops.eye(score.shape[1], score.shape[1], ms.float32) * score).sum(-1)
    by_word = own - _log_sum(score + (1 - ops.expand_dims(mask_BL, 1)) * EXCLUDED)
    by_context = own - _log_sum(score.swapaxes(1, 2) + (1 - ops.expand_dims(mask_BL, 1)) * EXCLUDED)
    return -0.5 * ((by_word + by_context) * mask_BL).sum() / ops.maximum(mask_BL.sum(), 1.0)


def _log_sum(score):
    """log(sum(exp(score))) over the last axis, without overflow."""
    top = ops.stop_gradient(ops.amax(score, -1, True))
    return ops.log(ops.exp(score - top).sum(-1)) + top.reshape(score.shape[:-1])
