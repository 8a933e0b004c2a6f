"""The matching loss: a fusion learns to tell matched pairs from pairs that the cosines find almost as alike."""
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hcma.distributed import Ranks
from hcma.losses.blockwise import PER_SCORE, block_size, cut, put
from hcma.losses.contrastive import EXCLUDED, positives

# A prime, so that a table of noise read in strides comes round late.
NOISE = 65521


class HardNegatives(nn.Cell):
    """For every text an image and for every image a text, no positives, drawn in proportion to the scores' softmax.

    ``construct(score (B, B), positive (B, B))``, texts in rows, gives the images of the texts (B,) int32 and whether
    there was any, (B,) of 0 and 1, then the texts of the images and whether there was any. ``blocks(...)`` draws the
    same without ever holding (B, B). A draw adds Gumbel noise and takes the largest. The noise comes from fixed tables
    at a place that moves with every call of ``count``, so that it is a function of the number of calls alone, and a
    resumed run draws what it would have drawn.
    """

    def __init__(self, seed):
        super().__init__()
        noise = np.random.default_rng((seed, 1)).gumbel(size=(2, NOISE))
        self.noise = Tensor(noise.astype(np.float32))
        self.calls = Parameter(Tensor(0, ms.int32), name='hard_negatives_drawn', requires_grad=False)
        self.stride = 7919
        self.top_of_row, self.top_of_column = ops.ArgMaxWithValue(1), ops.ArgMaxWithValue(0)

    def construct(self, score_BB, positive_BB):
        image, text, _ = self.block(ops.stop_gradient(score_BB), positive_BB, 0)
        return image, _any(ops.amin(positive_BB, 1)), text, _any(ops.amin(positive_BB, 0))

    def block(self, score_CB, positive_CB, first):
        """The draws among a block of texts, of which the first is number ``first``: images of these texts (C,), for
        every image a text of the block (B,), and the height of that draw (B,).
        """
        texts, images = score_CB.shape
        row = ops.cast(ops.arange(texts), ms.int32).reshape(-1, 1) + first
        place_CB = row * images + ops.cast(ops.arange(images), ms.int32) + self.calls * self.stride
        kept_CB = score_CB + positive_CB * EXCLUDED
        image = self.top_of_row(kept_CB + ops.gather(self.noise[0], place_CB % NOISE, 0))[0]
        text, height = self.top_of_column(kept_CB + ops.gather(self.noise[1], place_CB % NOISE, 0))
        return ops.cast(image, ms.int32), ops.cast(text, ms.int32) + first, height

    def count(self, after):
        """``after``, once the draws of this call are counted; the product with the stride stays far below 2**31."""
        return ops.depend(after, ops.assign(self.calls, (self.calls + 1) % NOISE))


class BlockwiseHardNegatives(nn.Cell):
    """What a ``HardNegatives`` draws, a block of texts at a time; ``scores`` are the cells that score each level.

    ``construct(group (T, G), image_group (B, G), scales, biases, texts, masks, images)`` takes tuples, of two scalars
    and three features for each level. The T texts are those of this rank, the B images those of all; drawn are
    images for these texts, and texts of all ranks for their images. A block is as many texts as ``floats`` numbers in
    memory allow.
    """

    def __init__(self, hard, scores, floats):
        super().__init__(auto_prefix=False)
        self.hard, self.scores, self.floats = hard, nn.CellList(scores), floats
        self.ranks = Ranks()

    def construct(self, group_TG, group_BG, scales, biases, texts, masks, images):
        own, batch = group_TG.shape[0], group_BG.shape[0]
        size = self._size(own, batch, texts, images)
        text_KC, mask_KC = [cut(text, size) for text in texts], [cut(mask, size) for mask in masks]
        group_KC, valid_KC = cut(group_TG, size), cut(ops.ones((own, 1), ms.float32), size)
        image_KC, found_KC = ops.zeros(group_KC.shape[:2], ms.int32), ops.zeros(group_KC.shape[:2], ms.float32)
        text_B, height_B = ops.zeros((batch,), ms.int32), ops.full((batch,), -3e38, dtype=ms.float32)
        k = Tensor(0, ms.int32)
        while k < group_KC.shape[0]:
            score_CB = ops.zeros((size, batch), ms.float32)
            for level in range(len(self.scores)):
                cosine_CB = self.scores[level](ops.gather(text_KC[level], k, 0), ops.gather(mask_KC[level], k, 0),
                                               images[level])
                score_CB = score_CB + ops.cast(cosine_CB, ms.float32) * scales[level] + biases[level]
            # what fills up the last block is left out as positives are
            positive_CB = ops.maximum(positives(ops.gather(group_KC, k, 0), group_BG), 1 - ops.gather(valid_KC, k, 0))
            image, text, height = self.hard.block(score_CB, positive_CB, k * size + self.ranks.rank * own)
            image_KC, found_KC = put(image_KC, k, image), put(found_KC, k, _any(ops.amin(positive_CB, 1)))
            text_B = ops.select(height > height_B, text, text_B)
            height_B = ops.maximum(height, height_B)
            k = k + 1
        found_T = found_KC.reshape(-1)[:own]  # positives are symmetric: an image has a negative if its text has one
        return image_KC.reshape(-1)[:own], found_T, ops.minimum(self._highest(text_B, height_B), batch - 1), found_T

    def _highest(self, text_B, height_B):
        """Of what all ranks drew for every image the highest, for own images (T,)."""
        if self.ranks.count == 1:
            return text_B
        rank_T = self.hard.top_of_column(self._for_own(height_B))[0]
        return ops.gather_elements(self._for_own(text_B), 0, ops.expand_dims(rank_T, 0)).reshape(-1)

    def _for_own(self, x_B):
        """What every rank has for each own image, (ranks, T)."""
        return self.ranks.own(self.ranks.by_rank(x_B).swapaxes(0, 1)).swapaxes(0, 1)

    def bprop(self, group_TG, group_BG, scales, biases, texts, masks, images, out, dout):
        """A draw has no gradient."""
        return (group_TG * 0, group_BG * 0, _zeros(scales), _zeros(biases), _zeros(texts), _zeros(masks),
                _zeros(images))

    def _size(self, own, batch, texts, images):
        numbers = PER_SCORE
        for level in range(len(self.scores)):
            numbers += PER_SCORE + self.scores[level].floats(texts[level].shape, images[level].shape)
        return block_size(self.floats, own, batch, numbers)


def _zeros(parts):
    return tuple([part * 0 for part in parts])


def _any(least):
    """1 where the least of a row of positives is 0: there is a negative."""
    return ops.cast(least < 0.5, ms.float32)


class Matching(nn.Cell):
    """Binary cross entropy of ``fusion``: half over matched pairs, half over wrong ones.

    ``construct(text, image, draws)`` takes the parts that the fusion reads, of this rank's pairs, and what
    ``HardNegatives`` drew for these, and gives their share. Wrong pairs are every text with a hard image and every
    image with a hard text, of any rank; with ``negative``, the parts of wrong texts, present where ``present`` (T,) is
    1, these with their images as well.
    """

    def __init__(self, fusion, seed):
        super().__init__(auto_prefix=False)
        self.fusion = fusion
        self.hard = HardNegatives(seed)
        self.ranks = Ranks()

    def construct(self, text, image, draws, negative=None, present_T=None):
        image_at, image_found, text_at, text_found = draws
        texts = _stacked(text, text, self._rows(text, self.hard.count(text_at)))
        images = _stacked(image, self._rows(image, image_at), image)
        counts = ops.concat((image_found, text_found))
        if negative is not None:
            texts, images = _stacked(texts, negative), _stacked(images, image)
            counts = ops.concat((counts, present_T))
        odds = self.fusion(texts, images)
        own = image_at.shape[0]
        wrong = (ops.softplus(odds[own:]) * counts).sum() / ops.maximum(self.ranks.total(counts.sum()), 1.0)
        return 0.5 * (ops.softplus(-odds[:own]).sum() / (own * self.ranks.count) + wrong)

    def _rows(self, parts, at):
        """Those rows ``at`` of the parts of all ranks."""
        return tuple([ops.gather(self.ranks.gather(part), at, 0) for part in parts])


def _stacked(*many):
    """The parts of several batches, one after the other."""
    stacked = ()
    for number in range(len(many[0])):
        stacked = stacked + (ops.concat([parts[number] for parts in many]),)
    return stacked
