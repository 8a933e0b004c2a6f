"""The contrastive losses of large batches, exactly, a block of texts at a time: no (B, B) is ever in memory.

One loop over the blocks gives the loss and, for each text and image, what its softmax needs; another makes the scores
of every block once more and takes their gradient at once. With many ranks each does so for its own texts and all
images: the losses are its share of the whole, and the gradients what its scores contribute, so all ranks' add up.
"""
import mindspore as ms
from mindspore import Tensor, nn, ops

from hcma.distributed import Ranks
from hcma.losses.contrastive import EXCLUDED, excluding, softmax_slopes, targets

# What a block may take, 256 MB, of which a score takes about so many numbers, one for each matrix made of it.
FLOATS = 2 ** 26
PER_SCORE = 32


class Blockwise(nn.Cell):
    """The loop that both losses share. ``score(text (C, ...), mask (C, ...), image (B, ...))`` gives cosines (C, B).

    ``construct(text (T, ...), mask (T, ...), image (B, ...), scale, bias, group (T, G), image_group (B, G),
    negative (T,), present (T,))`` gives the share of the T texts in the loss of the scores ``scale * cosine + bias``,
    then what the backward pass needs: two numbers for each text and two for each image. The texts are those of one
    rank, T = B / ranks; the images those of all, in the order of the ranks. There are gradients of text, image, scale,
    bias and negative, the scaled score of each own image with a wrong text. C is as many texts as ``floats`` numbers in
    memory allow; the last block is filled up.
    """

    mean = 1.0  # what the slopes of a subclass are multiplied by

    def __init__(self, score, floats=FLOATS):
        super().__init__()
        self.score = score
        self.floats = floats
        self.ranks = Ranks()
        self.targets = targets()
        self.pull = ops.GradOperation(get_all=True, sens_param=True)(score)

    def bprop(self, text, mask, image, scale, bias, group_TG, group_BG, negative_T, present_T, out, dout):
        size = self.size(text, image)
        text_KC, mask_KC, group_KC = cut(text, size), cut(mask, size), cut_ids(group_TG, size)
        inverse_KC, row_KC, valid_KC = cut(out[1], size), cut(out[2], size), self._valid(text, size)
        # ops.zeros: with zeros_like a gradient inside a bprop does not compile
        dtext_KC, dimage = ops.zeros(text_KC.shape, ms.float32), ops.zeros(image.shape, ms.float32)
        dscale, dbias = ops.zeros((), ms.float32), ops.zeros((), ms.float32)
        k = Tensor(0, ms.int32)
        while k < text_KC.shape[0]:
            text_C, mask_C = ops.gather(text_KC, k, 0), ops.gather(mask_KC, k, 0)
            cosine_CB = ops.cast(self.score(text_C, mask_C, image), ms.float32)
            score_CB, valid_C1 = cosine_CB * scale, ops.gather(valid_KC, k, 0)
            if text_KC.shape[0] * size > text.shape[0]:
                score_CB = score_CB + (1 - valid_C1) * EXCLUDED  # else its exponential may be infinite
            slope_CB = self._slope(score_CB, bias, ops.gather(group_KC, k, 0), group_BG, ops.gather(inverse_KC, k, 0),
                                   ops.gather(row_KC, k, 0), out[3], out[4])
            if text_KC.shape[0] * size > text.shape[0]:
                slope_CB = slope_CB * valid_C1
            pulled = self.pull(text_C, mask_C, image, slope_CB)
            dtext_KC, dimage = put(dtext_KC, k, pulled[0]), dimage + pulled[2]
            dscale, dbias = dscale + (slope_CB * cosine_CB).sum(-1).sum(), dbias + self._bias_slope(slope_CB)
            k = k + 1
        share = dout[0] * (self.mean / image.shape[0])
        dtext = uncut(dtext_KC, text.shape[0])
        dnegative_T = self._negative_slope(negative_T, present_T, out[4]) * share
        return (dtext * (share * scale), mask * 0, dimage * (share * scale), dscale * share, dbias * share,
                group_TG * 0, group_BG * 0, dnegative_T, present_T * 0)

    def size(self, text, image):
        """How many texts are a block; all where they fit."""
        numbers = PER_SCORE + self.score.floats(text.shape, image.shape)
        return block_size(self.floats, text.shape[0], image.shape[0], numbers)

    def _positives(self, group_CG, group_BG):
        """1 for the pairs that belong together, else 0, (C, B)."""
        none_C, one_B = ops.zeros(group_CG.shape[:1], ms.float32), ops.ones(group_BG.shape[:1], ms.float32)
        return self.targets(group_CG, group_BG, none_C, one_B)

    def _valid(self, text, size):
        """1 for each text and 0 for what fills up the last block, (K, C, 1)."""
        return cut(ops.ones((text.shape[0], 1), ms.float32), size)


class BlockwiseSoftmax(Blockwise):
    """``info_nce`` block by block, where a bias would change nothing.

    What it keeps are 1 / count of positives and the log-sum, of every text over images and of every image over texts.
    All that ranks exchange are those of images.
    """
    mean = 0.5  # of both directions

    def __init__(self, score, smoothing=0.0, floats=FLOATS):
        super().__init__(score, floats)
        self.smoothing = smoothing
        self.slopes, self.log_softmax = softmax_slopes(), ops.LogSoftmax(-1)
        self.log_softmax_of_columns = ops.LogSoftmax(0)

    def construct(self, text, mask, image, scale, bias, group_TG, group_BG, negative_T, present_T):
        texts, batch, size = text.shape[0], image.shape[0], self.size(text, image)
        text_KC, mask_KC, group_KC = cut(text, size), cut(mask, size), cut_ids(group_TG, size)
        valid_KC = self._valid(text, size)
        row_KC = own_KC = count_KC = ops.zeros(text_KC.shape[:2], ms.float32)
        drawn_B, column_B = ops.zeros((batch,), ms.float32), ops.full((batch,), -3e38, dtype=ms.float32)
        spread = ops.zeros((), ms.float32)
        k = Tensor(0, ms.int32)
        while k < text_KC.shape[0]:
            cosine_CB = self.score(ops.gather(text_KC, k, 0), ops.gather(mask_KC, k, 0), image)
            score_CB = ops.cast(cosine_CB, ms.float32) * scale
            positive_CB = self._positives(ops.gather(group_KC, k, 0), group_BG)
            # The log-sum of a row, for which subtracting its maximum would take as long as all the rest on CPU.
            row_KC = put(row_KC, k, score_CB[:, 0] - self.log_softmax(score_CB)[:, 0])
            valid_C1 = ops.gather(valid_KC, k, 0)
            if text_KC.shape[0] * size > texts:
                score_CB = score_CB + (1 - valid_C1) * EXCLUDED
            own_CB = positive_CB * score_CB
            own_KC, count_KC = put(own_KC, k, own_CB.sum(-1)), put(count_KC, k, positive_CB.sum(-1))
            drawn_B = drawn_B + own_CB.sum(0)
            block_B = self._log_sums(score_CB)
            top_B = ops.maximum(column_B, block_B)
            column_B = top_B + ops.log(ops.exp(column_B - top_B) + ops.exp(block_B - top_B))
            if self.smoothing:
                spread = spread + (score_CB * valid_C1).sum()
            k = k + 1
        row_T, own_T = uncut(row_KC, texts), uncut(own_KC, texts)
        inverse_T = 1 / ops.maximum(uncut(count_KC, texts), 1.0)
        inverse_B = self.ranks.gather(inverse_T)  # positives are symmetric, so an image has as many as its text
        column_B = self._over_ranks(column_B)
        wrong_B = self.ranks.gather(excluding(negative_T, present_T))
        column_B = column_B + ops.softplus(wrong_B - column_B)
        target = (1 - self.smoothing) * ((own_T * inverse_T).sum() + (drawn_B * inverse_B).sum())
        target = target + 2 * self.smoothing / batch * spread
        share = 0.5 / batch * ((row_T + self.ranks.own(column_B)).sum() - target)
        return share, inverse_T, row_T, inverse_B, column_B

    def _over_ranks(self, column_B):
        """The log-sums over the texts of all ranks, of those over each rank's own."""
        if self.ranks.count == 1:
            return column_B
        return self._log_sums(self.ranks.by_rank(column_B))

    def _log_sums(self, score_CB):
        """The log-sums of the columns, (B,)."""
        return score_CB[0] - self.log_softmax_of_columns(score_CB)[0]

    def _slope(self, score_CB, bias, group_CG, group_BG, inverse_C, row_C, inverse_B, column_B):
        kept = 1 - self.smoothing
        slope_CB = self.slopes(group_CG, group_BG, kept * inverse_C, kept * inverse_B, score_CB, row_C, column_B)
        return slope_CB - 2 * self.smoothing / column_B.shape[0] if self.smoothing else slope_CB

    def _negative_slope(self, negative_T, present_T, column_B):
        return ops.exp(excluding(negative_T, present_T) - self.ranks.own(column_B)) * present_T

    def _bias_slope(self, slope_CB):
        return 0.0


class BlockwiseSigmoid(Blockwise):
    """``sigmoid_loss`` block by block; it needs no numbers kept."""

    def construct(self, text, mask, image, scale, bias, group_TG, group_BG, negative_T, present_T):
        texts, batch, size = text.shape[0], image.shape[0], self.size(text, image)
        text_KC, mask_KC, group_KC = cut(text, size), cut(mask, size), cut_ids(group_TG, size)
        valid_KC, total = self._valid(text, size), (ops.softplus(negative_T) * present_T).sum()
        k = Tensor(0, ms.int32)
        while k < text_KC.shape[0]:
            cosine_CB = self.score(ops.gather(text_KC, k, 0), ops.gather(mask_KC, k, 0), image)
            score_CB = ops.cast(cosine_CB, ms.float32) * scale + bias
            loss_CB = ops.softplus(score_CB) - self._positives(ops.gather(group_KC, k, 0), group_BG) * score_CB
            if text_KC.shape[0] * size > texts:
                loss_CB = loss_CB * ops.gather(valid_KC, k, 0)
            total = total + loss_CB.sum()
            k = k + 1
        return total / batch, present_T, present_T, present_T, present_T

    def _slope(self, score_CB, bias, group_CG, group_BG, inverse_C, row_C, inverse_B, column_B):
        return ops.sigmoid(score_CB + bias) - self._positives(group_CG, group_BG)

    def _negative_slope(self, negative_T, present_T, column_B):
        return ops.sigmoid(negative_T) * present_T

    def _bias_slope(self, slope_CB):
        return slope_CB.sum()


def block_size(floats, texts, images, numbers):
    """How many of ``texts`` are a block where ``numbers`` are held for each pair and ``floats`` may be."""
    size = floats // (images * numbers)
    size = size if size > 0 else 1
    return size if size < texts else texts


def cut(x, size):
    """The rows of x in blocks of ``size``, (K, C, ...), the last filled up with zeros."""
    missing = -x.shape[0] % size
    if missing:
        x = ops.concat((x, ops.zeros((missing,) + x.shape[1:], x.dtype)))
    return x.reshape((-1, size) + x.shape[1:])


def cut_ids(group, size):
    """``cut`` of ids from 0 up, the last block filled up with -1, which nobody has."""
    return cut(group + 1, size) - 1


def uncut(blocks, count):
    """The first ``count`` rows of blocks (K, C, ...)."""
    rows = blocks.reshape((-1,) + blocks.shape[2:])
    return rows if rows.shape[0] == count else rows[:count]


def put(blocks, k, block):
    """The blocks (K, ...) with ``block`` in place k."""
    return ops.tensor_scatter_update(blocks, k.reshape(1, 1), ops.expand_dims(block, 0))
