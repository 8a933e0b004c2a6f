"""The contrastive losses over scores: the symmetric softmax (InfoNCE) or the sigmoid of every pair.

InfoNCE is that of van den Oord et al. (2018) as in CLIP (Radford et al., 2021), the sigmoid loss that of SigLIP
(Zhai et al., 2023).
"""
import mindspore as ms
from mindspore import nn, ops

from hcma import backend
from hcma.kernels import cells as compiled

# Added to a score that takes no part in a softmax.
EXCLUDED = -1e4


def positives(group_CG, column_group_BG):
    """Which rows of two groups belong together, (C, B) of 0 and 1: those that share any of their G group ids.

    The columns of a group, int64, are kinds of identity, such as the same image and the same caption.
    """
    same_CB = ops.equal(group_CG[:, :1], column_group_BG[:, 0])
    for kind in range(1, group_CG.shape[1]):
        same_CB = ops.logical_or(same_CB, ops.equal(group_CG[:, kind:kind + 1], column_group_BG[:, kind]))
    return ops.cast(same_CB, ms.float32)


class Targets(nn.Cell):
    """``row (C,) + column (B,)`` for the ``positives`` of two groups, else 0, (C, B) float32, without gradient."""

    def construct(self, group_CG, column_group_BG, row_C, column_B):
        return positives(group_CG, column_group_BG) * (ops.expand_dims(row_C, 1) + column_B)


class SoftmaxSlopes(nn.Cell):
    """The softmax over the rows plus that over the columns of ``score`` (C, B) minus ``Targets``, without gradient.

    ``row_sum`` (C,) and ``column_sum`` (B,) are the log-sums; columns may have more rows than are here.
    """

    def __init__(self):
        super().__init__()
        self.targets, self.softmax = Targets(), ops.Softmax(-1)

    def construct(self, group_CG, column_group_BG, row_C, column_B, score_CB, row_sum_C, column_sum_B):
        likely_CB = self.softmax(score_CB) + ops.exp(score_CB - column_sum_B)
        return likely_CB - self.targets(group_CG, column_group_BG, row_C, column_B)


def targets():
    """A cell ``Targets``."""
    return compiled.Targets() if backend.compiles_kernels() else Targets()


def softmax_slopes():
    """A cell ``SoftmaxSlopes``."""
    return compiled.SoftmaxSlopes() if backend.compiles_kernels() else SoftmaxSlopes()


def info_nce(score_BB, positive_BB, negative_B=None, present_B=None, smoothing=0.0):
    """Mean over both directions of the cross entropy between the softmax of the scores and the positives.

    ``score_BB`` (B_text, B_image) is already divided by the temperature. A row's positives share its target evenly,
    so a picture that comes twice is never its own negative; of the target ``smoothing`` is spread evenly over the
    batch. ``negative_B`` scores each image with a text that is wrong for it: one more candidate among the texts (as in
    NegCLIP, Yuksekgonul et al., 2023, but only for its own image), where ``present_B`` is 1. Returns a float32 scalar.
    """
    score = ops.cast(score_BB, ms.float32)
    by_image, positive = score.swapaxes(0, 1), positive_BB.swapaxes(0, 1)
    target = _target(positive, smoothing)
    if negative_B is not None:
        wrong = excluding(negative_B, present_B)
        by_image = ops.concat((by_image, wrong.reshape(-1, 1)), 1)
        target = ops.concat((target, ops.zeros_like(wrong).reshape(-1, 1)), 1)
    return 0.5 * (_one_way(score, _target(positive_BB, smoothing)) + _one_way(by_image, target))


def sigmoid_loss(score_BB, positive_BB, negative_B=None, present_B=None):
    """Binary cross entropy of every pair, summed over the texts of an image and averaged over the images.

    The scores have their bias already. Wrong texts (see ``info_nce``) are further negatives. A float32 scalar.
    """
    score = ops.cast(score_BB, ms.float32)
    total = (ops.softplus(score) - positive_BB * score).sum()
    if negative_B is not None:
        total = total + (ops.softplus(ops.cast(negative_B, ms.float32)) * present_B).sum()
    return total / score.shape[0]


def excluding(negative_B, present_B):
    """The scores of wrong texts in float32; one that is not there is far below all others."""
    return ops.cast(negative_B, ms.float32) * present_B + (1 - present_B) * EXCLUDED


def _target(positive, smoothing):
    target = positive / positive.sum(-1, keepdims=True)
    return (1 - smoothing) * target + smoothing / positive.shape[1] if smoothing else target


def _one_way(score, target):
    return -(ops.log_softmax(score, -1) * target).sum(-1).mean()


def word_contrast(score_BLL, mask_BL, words):
    """The contrast between the words of one caption, symmetric: word l belongs to context l (``InPair``).

    ``score_BLL`` (words, contexts) is divided by the temperature, ``mask_BL`` 1 on words. The sum over ``words``, how
    many words the whole batch has, a float32 scalar; 0 where there is none.
    """
    score = ops.cast(score_BLL, ms.float32)
    own = (ops.eye(score.shape[1], score.shape[1], ms.float32) * score).sum(-1)
    by_word = own - log_sum(score + (1 - ops.expand_dims(mask_BL, 1)) * EXCLUDED)
    by_context = own - log_sum(score.swapaxes(1, 2) + (1 - ops.expand_dims(mask_BL, 1)) * EXCLUDED)
    return -0.5 * ((by_word + by_context) * mask_BL).sum() / ops.maximum(words, 1.0)


def log_sum(score):
    """log(sum(exp(score))) over the last axis, without overflow."""
    top = ops.stop_gradient(ops.amax(score, -1, True))
    return ops.log(ops.exp(score - top).sum(-1)) + top.reshape(score.shape[:-1])
