"""How well every text matches every image at one level, from features that are normalised rows.

All-pairs scores are (B_text, B_image); ``*_pairs`` score row i of the texts with row i of the images, (B,).
"""
import mindspore as ms
from mindspore import nn, ops

from hcma import backend
from hcma.kernels import cells as compiled

# Cosines start at -1, so this keeps an excluded word out of every maximum.
BELOW_EVERY_COSINE = -4.0


class SentenceGlobal(nn.Cell):
    """Cosine of every sentence with every global image feature, (T, E), (I, E) to (T, I) in float32.

    The products are made in the type ``compute``. Called like the local levels, though there is no mask to heed.
    """
    compute = ms.float32

    def __init__(self):
        super().__init__()
        self.product = ops.MatMul(transpose_b=True)

    def construct(self, sentence_TE, mask, global_IE):
        cosine = self.product(ops.cast(sentence_TE, self.compute), ops.cast(global_IE, self.compute))
        return ops.cast(cosine, ms.float32)

    def floats(self, text_shape, image_shape):
        """How many numbers are in memory for each pair, besides its score."""
        return 0


class SentenceGlobalPairs(nn.Cell):
    """Cosine of each sentence with its own image, (B, E), (B, E) to (B,), called like ``SentenceGlobal``."""

    def construct(self, sentence_BE, mask, global_BE):
        return (sentence_BE * global_BE).sum(-1)


class BestMatches(nn.Cell):
    """The best patch for every word and the best word for every patch, over all pairs of texts and images.

    ``construct(word (T, L, E), patch (I, P, E))``, both of one type, gives in float32 the maxima over patches
    (T, L, I), their positions, the maxima over words (T, I, P), and their positions. The backward pass writes each
    gradient to the one product that won; comparing all T x L x I x P products with their maxima, as automatic
    differentiation does, takes twice as long on CPU.
    """

    def __init__(self):
        super().__init__()
        self.best_patch = ops.ArgMaxWithValue(axis=3)
        self.best_word = ops.ArgMaxWithValue(axis=1)
        self.product = ops.MatMul(transpose_b=True)
        self.transposed_product = ops.MatMul(transpose_a=True)
        self.scatter = ops.ScatterNd()
        self.range = ops.Range()

    def construct(self, word_TLE, patch_IPE):
        texts, words, width = word_TLE.shape
        images, patches, _ = patch_IPE.shape
        cosine = self.product(word_TLE.reshape(-1, width), patch_IPE.reshape(-1, width))
        cosine = ops.cast(cosine.reshape(texts, words, images, patches), ms.float32)
        patch_at, patch_best = self.best_patch(cosine)
        word_at, word_best = self.best_word(cosine)
        return patch_best, patch_at, word_best, word_at

    def bprop(self, word_TLE, patch_IPE, out, dout):
        texts, words, width = word_TLE.shape
        images, patches, _ = patch_IPE.shape
        # Range: inside a gradient that another bprop takes (losses/blockwise.py) arange does not compile.
        text, word, image, patch = (self.range(0, n, 1) for n in (texts, words, images, patches))
        row = text.reshape(-1, 1, 1) * words + word.reshape(1, -1, 1)
        from_patch = (row * images + image.reshape(1, 1, -1)) * patches + ops.cast(out[1], ms.int32)
        row = text.reshape(-1, 1, 1) * words + ops.cast(out[3], ms.int32)
        from_word = (row * images + image.reshape(1, -1, 1)) * patches + patch.reshape(1, 1, -1)
        index = ops.concat((from_patch.reshape(-1, 1), from_word.reshape(-1, 1)))
        gradient = ops.concat((dout[0].reshape(-1), dout[2].reshape(-1)))
        dcosine = self.scatter(index, gradient, (texts * words * images * patches,))
        dcosine = dcosine.reshape(texts * words, images * patches)
        word, patch = ops.cast(word_TLE, ms.float32), ops.cast(patch_IPE, ms.float32)
        dword = ops.matmul(dcosine, patch.reshape(-1, width)).reshape(word_TLE.shape)
        dpatch = self.transposed_product(dcosine, word.reshape(-1, width)).reshape(patch_IPE.shape)
        return ops.cast(dword, word_TLE.dtype), ops.cast(dpatch, patch_IPE.dtype)


class LateInteraction(nn.Cell):
    """Late interaction: half the mean over words of the best patch plus half the mean over patches of the best word.

    The first half is the text-to-image direction of FILIP (Yao et al., 2021), the second its image-to-text
    direction. ``construct(word (T, L, E), mask (T, L), patch (I, P, E))`` gives (T, I); a text without words scores 0.
    The factors of the products are of the type ``compute``, all else is float32.
    """
    compute = ms.float32

    def __init__(self):
        super().__init__()
        self.is_compiled = backend.compiles_kernels()
        self.best_matches = compiled.BestMatches() if self.is_compiled else BestMatches()

    def construct(self, word_TLE, mask_TL, patch_IPE):
        one = ops.ones(patch_IPE.shape[:2] + (1,), patch_IPE.dtype)
        word = ops.cast(_with_mask(word_TLE, mask_TL), self.compute)
        patch = ops.cast(ops.concat((patch_IPE, one), -1), self.compute)
        if self.is_compiled:  # the kernel multiplies in float32
            word, patch = ops.cast(word, ms.float32), ops.cast(patch, ms.float32)
        best_patch, _, best_word, _ = self.best_matches(word, patch)
        return _mean_of_bests((best_patch * ops.expand_dims(mask_TL, -1)).sum(1), best_word.mean(-1),
                              mask_TL.sum(1, keepdims=True))

    def floats(self, word_shape, patch_shape):
        """How many numbers are in memory for each pair: maxima and places, and without kernels three products."""
        words, patches = word_shape[1], patch_shape[1]
        return 4 * (words + patches) + (0 if self.is_compiled else 3 * words * patches)


class LateInteractionPairs(nn.Cell):
    """``LateInteraction`` of each text with its own image: (B, L, E), (B, L), (B, P, E) to (B,)."""

    def construct(self, word_BLE, mask_BL, patch_BPE):
        one = ops.ones(patch_BPE.shape[:2] + (1,), patch_BPE.dtype)
        cosine = word_patch_cosines(_with_mask(word_BLE, mask_BL), ops.concat((patch_BPE, one), -1))
        return _mean_of_bests((ops.amax(cosine, -1) * mask_BL).sum(1), ops.amax(cosine, 1).mean(-1), mask_BL.sum(1))


def word_patch_cosines(word_BLE, patch_BPE):
    """Cosine of each word with each patch of its own image, (B, L, P): what the heat maps draw."""
    return ops.bmm(word_BLE, patch_BPE.swapaxes(1, 2))


def _with_mask(word_BLE, mask_BL):
    """One more column, so that the product with (patch, 1) is the cosine for words and below all for the others.

    Masking the products instead would touch T x L x I x P numbers.
    """
    mask = ops.expand_dims(mask_BL, -1)
    return ops.concat((word_BLE * mask, (1 - mask) * BELOW_EVERY_COSINE), -1)


def _mean_of_bests(best_patch_sum, best_word_mean, count):
    some = ops.minimum(count, 1.0)
    return 0.5 * some * (best_patch_sum / ops.maximum(count, 1.0) + best_word_mean)
