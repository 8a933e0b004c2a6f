"""Pictures become what the definitions say: CLIP's pixels, patches in reading order, a class token or a mean."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from hcma.models.image_encoder import ImageEncoder, PatchStem, PixelNorm
from hcma.models.layers import Init

PICTURES = np.random.default_rng(0).integers(0, 256, (2, 12, 16, 3), dtype=np.uint8)  # of 3 x 4 patches


@pytest.fixture(scope='module')
def config(make_recipe):
    """``config(...)``: the tiny image tower for pictures that are no squares, with other values."""
    def make(**values):
        return make_recipe(model={'image': {'size': [12, 16], **values}}).model.image
    return make


def test_pixels_are_those_of_clip(config):
    mean, deviation = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    assert (config().mean, config().deviation) == (mean, deviation)
    expected = (PICTURES / 255.0 - np.array(mean)) / np.array(deviation)
    norm = PixelNorm(mean, deviation, PICTURES.shape[2])
    np.testing.assert_allclose(norm(Tensor(PICTURES)).asnumpy(), expected, atol=1e-5)


def test_patchify_is_a_convolution_with_the_patch_as_its_stride(config):
    stem = PatchStem(config(stem='patchify', patch_size=4), Init(0))
    x = Tensor(np.random.default_rng(1).normal(size=(2, 12, 16, 3)), ms.float32)
    kernel = stem.project.weight.reshape(-1, 4, 4, 3).transpose(0, 3, 1, 2)
    convolved = ops.Conv2D(stem.width, 4, stride=4)(x.transpose(0, 3, 1, 2), kernel)
    expected = convolved.asnumpy().reshape(2, stem.width, 12).transpose(0, 2, 1)
    np.testing.assert_allclose(stem(x).asnumpy(), expected, atol=1e-5)


@pytest.mark.parametrize('pool', ['class', 'mean'])
def test_patch_is_told_from_its_own_pixels_alone_in_reading_order(config, pool):
    """With no blocks, a change at the right of the second row of patches changes that patch only."""
    encoder = ImageEncoder(config(stem='patchify', patch_size=4, depth=0, pool=pool), Init(0))
    changed = PICTURES.copy()
    changed[:, 4:8, 12:16] //= 2
    before, after = (encoder(Tensor(pictures))[0].asnumpy() for pictures in (PICTURES, changed))
    assert np.array_equal(np.flatnonzero((before != after).any((0, 2))), [4 + 3])


@pytest.mark.parametrize('stem', [{'stem': 'patchify', 'patch_size': 4}, {'stem': 'convolution'}], ids=str)
def test_class_token_is_no_patch_and_the_mean_is_over_patches(config, stem):
    with_class, with_mean = (ImageEncoder(config(pool=pool, **stem), Init(0)) for pool in ('class', 'mean'))
    patch_BPD, global_BD = with_mean(Tensor(PICTURES))
    np.testing.assert_allclose(global_BD.asnumpy(), patch_BPD.asnumpy().mean(1), atol=1e-6)
    class_patch_BPD, class_BD = with_class(Tensor(PICTURES))
    assert class_patch_BPD.shape == patch_BPD.shape == (2, 12, 16)
    assert not np.allclose(class_BD.asnumpy(), class_patch_BPD.asnumpy().mean(1), atol=1e-2)


def test_a_picture_does_not_depend_on_its_batch(config):
    encoder = ImageEncoder(config(), Init(0))
    for together, alone in zip(encoder(Tensor(PICTURES)), encoder(Tensor(PICTURES[1:]))):
        np.testing.assert_allclose(together.asnumpy()[1:], alone.asnumpy(), atol=1e-6)


@pytest.mark.parametrize('pool', ['class', 'mean'])
def test_only_kept_patches_are_seen(pool, config):
    encoder = ImageEncoder(config(stem='patchify', patch_size=4, pool=pool), Init(0))
    every = Tensor(np.tile(np.arange(12, dtype=np.int32), (2, 1)))
    for kept, whole in zip(encoder(Tensor(PICTURES), every), encoder(Tensor(PICTURES))):
        np.testing.assert_allclose(kept.asnumpy(), whole.asnumpy(), atol=1e-5)
    pictures, kept = PICTURES.copy(), Tensor(np.array([[0, 3, 9], [2, 3, 4]], np.int32))
    patch, whole = (x.asnumpy() for x in encoder(Tensor(pictures), kept))
    assert patch.shape == (2, 3, 16)
    pictures[:, :4, 4:8] = 0  # patch 1, which neither keeps
    assert np.array_equal(encoder(Tensor(pictures), kept)[0].asnumpy(), patch)
    pictures[:, :4, :4] = 0  # patch 0
    seen = encoder(Tensor(pictures), kept)[1].asnumpy()
    assert not np.allclose(seen[0], whole[0]) and np.array_equal(seen[1], whole[1])
