"""The matching loss: a fusion learns to tell matched pairs from pairs that the cosines find almost as alike."""
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hcma.losses.contrastive import EXCLUDED

# A prime, so that a table of noise read in strides comes round late.
NOISE = 65521


class HardNegatives(nn.Cell):
    """For every row of scores one column that is no positive, drawn in proportion to the softmax of the scores.

    ``construct(score (B, N), positive (B, N))`` gives the columns (B,) int32 and whether there was any, (B,) of 0, 1.
    The draw adds Gumbel noise and takes the largest. The noise comes from a fixed table at a place that moves with
    every call, so that it is a function of the number of calls alone, and a resumed run draws what it would have drawn.
    """

    def __init__(self, seed, name='negatives'):
        super().__init__()
        noise = np.random.default_rng(seed).gumbel(size=NOISE)
        self.noise = Tensor(noise.astype(np.float32))
        self.calls = Parameter(Tensor(0, ms.int32), name=f'{name}_drawn', requires_grad=False)
        self.stride = 7919

    def construct(self, score_BN, positive_BN):
        rows, columns = score_BN.shape
        place = ops.arange(rows * columns).astype(ms.int32) + self.calls * self.stride
        noise = ops.gather(self.noise, place % NOISE, 0).reshape(rows, columns)
        at = ops.argmax(score_BN + noise + positive_BN * EXCLUDED, -1)
        # The product stays far below the largest int32.
        at = ops.depend(at, ops.assign(self.calls, (self.calls + 1) % NOISE))
        return ops.cast(at, ms.int32), ops.cast(ops.amin(positive_BN, -1) < 0.5, ms.float32)


class Matching(nn.Cell):
    """Binary cross entropy of ``fusion``: half over matched pairs, half over wrong ones.

    ``construct(text, image, score (B, B), positive (B, B))`` takes the parts that the fusion reads and the summed
    scaled scores. Wrong pairs are every text with a hard image and every image with a hard text; with ``negative``,
    the parts of wrong texts, present where ``present`` (B,) is 1, these with their images as well.
    """

    def __init__(self, fusion, seed):
        super().__init__(auto_prefix=False)
        self.fusion = fusion
        self.hard_image = HardNegatives((seed, 1), 'hard_images')
        self.hard_text = HardNegatives((seed, 2), 'hard_texts')

    def construct(self, text, image, score_BB, positive_BB, negative=None, present_B=None):
        score_BB = ops.stop_gradient(score_BB)
        image_at, image_found = self.hard_image(score_BB, positive_BB)
        text_at, text_found = self.hard_text(score_BB.swapaxes(0, 1), positive_BB.swapaxes(0, 1))
        texts = _stacked(text, text, _rows(text, text_at))
        images = _stacked(image, _rows(image, image_at), image)
        counts = ops.concat((image_found, text_found))
        if negative is not None:
            texts, images = _stacked(texts, negative), _stacked(images, image)
            counts = ops.concat((counts, present_B))
        odds = self.fusion(texts, images)
        batch = score_BB.shape[0]
        wrong = (ops.softplus(odds[batch:]) * counts).sum() / ops.maximum(counts.sum(), 1.0)
        return 0.5 * (ops.softplus(-odds[:batch]).mean() + wrong)


def _rows(parts, at):
    return tuple([ops.gather(part, at, 0) for part in parts])


def _stacked(*many):
    """The parts of several batches, one after the other."""
    stacked = ()
    for number in range(len(many[0])):
        stacked = stacked + (ops.concat([parts[number] for parts in many]),)
    return stacked
