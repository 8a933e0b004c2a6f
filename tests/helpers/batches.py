"""Random batches for every recipe."""
import numpy as np
from mindspore import Tensor, int32

VOCABULARY = 40


def make_batch(recipe, size=4, seed=0):
    """Random pictures, captions and group ids as a training batch of Tensors."""
    rng = np.random.default_rng(seed)
    length = recipe.model.text.length
    return (Tensor(rng.integers(0, 256, (size, *recipe.model.image.pixels, 3), dtype=np.uint8)),
            Tensor(rng.integers(0, VOCABULARY, (size, length)).astype(np.int32)),
            Tensor(rng.integers(3, length + 1, size).astype(np.int32)),
            Tensor(np.stack([np.arange(size), 100 + np.arange(size)], 1)))


def make_columns(recipe, size, negatives, seed=0):
    """The same with what else the recipe's columns are: kept patches, boxes, spans, and with ``negatives`` wrong texts,
    two of six of them missing.
    """
    image, ids, lengths, group = make_batch(recipe, size, seed)
    rng = np.random.default_rng(seed)
    columns = {'image': image, 'ids': ids, 'length': lengths, 'group': group}
    columns['kept'] = Tensor(np.stack([rng.permutation(16)[:recipe.kept_patches] for _ in range(size)]), int32)
    low = rng.random((size, 3, 2))
    columns['boxes'] = Tensor(np.concatenate((low, low + 0.1 + rng.random(low.shape)), 2).astype(np.float32))
    first = rng.integers(1, 4, (size, 4))
    columns['spans'] = Tensor(np.stack((first, first + rng.integers(0, 3, first.shape)), 2), int32)
    wrong = {f'negative_{name}': Tensor(columns[name].asnumpy()[::-1].copy()) for name in recipe.text_columns}
    wrong['negative_length'] = lengths * Tensor(np.resize([1, 0, 1, 1, 0, 1], size), int32)
    return tuple({**columns, **wrong}[name] for name in recipe.columns + tuple(wrong) * negatives)
