"""Crops lie inside the picture and depend on (seed, epoch, row) alone; resizing equals Pillow's to the bit."""
import io

import numpy as np
import pytest
from PIL import Image

from hcma.data.crops import Decoder, View, crop_scale, opened, random_box, random_view, sample_generator

AREA, ASPECT = (0.3, 0.7), (0.8, 1.25)
SIDE = 16
SQUARE = (SIDE, SIDE)


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def jpeg(picture):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, 'JPEG', quality=95)
    return file.getvalue()


def pillow_resized(picture, box=None):
    """``picture`` or its (top, left, height, width) ``box``, resized by Pillow."""
    top, left, height, width = box or (0, 0, *picture.shape[:2])
    cut = Image.fromarray(picture[top:top + height, left:left + width])
    return np.asarray(cut.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def crop_of(decoder, picture, key, flip=False):
    """The random crop of a picture that the sample ``key`` gets."""
    return decoder.see(picture, random_view(*picture.shape[:2], sample_generator(*key), AREA, ASPECT, flip, SQUARE))


@pytest.fixture(scope='module')
def decoder():
    return Decoder(SQUARE)


@pytest.mark.parametrize('pixels', [SQUARE, (12, 16)])
def test_a_box_is_inside_the_picture_with_area_and_aspect_in_their_ranges(pixels):
    """The aspect is counted from that of the pictures that crops are resized to."""
    rng, one = np.random.default_rng(0), pixels[1] / pixels[0]
    for _ in range(2000):
        height, width = (int(side) for side in rng.integers(40, 60, 2))
        top, left, box_height, box_width = random_box(height, width, rng, AREA, ASPECT, pixels)
        assert 0 <= top <= height - box_height and 0 <= left <= width - box_width
        # Rounding moves each side by half a pixel at most.
        assert (box_height - .5) * (box_width - .5) <= AREA[1] * height * width
        assert (box_height + .5) * (box_width + .5) >= AREA[0] * height * width
        assert (box_width - .5) / (box_height + .5) <= ASPECT[1] * one
        assert (box_width + .5) / (box_height - .5) >= ASPECT[0] * one


def test_boxes_reach_every_corner_and_both_ends_of_the_ranges():
    rng = np.random.default_rng(1)
    top, left, height, width = np.array([random_box(50, 50, rng, AREA, ASPECT, SQUARE) for _ in range(3000)]).T
    assert top.min() == left.min() == 0
    assert (top + height).max() == (left + width).max() == 50
    share, aspect = height * width / 2500, width / height
    assert share.min() < 0.32 and share.max() > 0.68
    assert aspect.min() < 0.83 and aspect.max() > 1.2
    assert abs(np.log(aspect).mean()) < 0.02, 'wide and high boxes are equally likely'


@pytest.mark.parametrize('height, width', [(1, 1), (1, 300), (300, 1), (2, 3), (5, 400)])
def test_a_picture_that_fits_no_box_gives_its_central_square_or_a_box_inside(height, width):
    side = min(height, width)
    for seed in range(50):
        box = random_box(height, width, np.random.default_rng(seed), (0.9, 1.0), (0.9, 1.1), SQUARE)
        top, left, box_height, box_width = box
        assert 0 <= top <= height - box_height and 0 <= left <= width - box_width and min(box[2:]) >= 1
        if height / width > 3 or width / height > 3:
            assert box == ((height - side) // 2, (width - side) // 2, side, side)


def test_the_whole_picture_is_the_only_box_of_the_full_area():
    assert random_box(30, 30, np.random.default_rng(0), (1.0, 1.0), (1.0, 1.0), SQUARE) == (0, 0, 30, 30)


def test_the_same_seed_epoch_and_row_give_the_same_crop_and_any_other_another(decoder):
    picture = noise(50, 60)

    def crop(*key):
        return crop_of(decoder, picture, key).tobytes()

    keys = [(seed, epoch, row) for seed in range(2) for epoch in range(2) for row in range(2)]
    crops = [crop(*key) for key in keys]
    assert crops == [crop(*key) for key in keys]
    assert len(set(crops)) == len(keys)


def test_a_crop_is_the_box_resized_as_pillow_does(decoder):
    picture = noise(50, 60)
    for row in range(20):
        box = random_box(50, 60, sample_generator(0, 0, row), AREA, ASPECT, SQUARE)
        expected = pillow_resized(picture, box)
        assert np.array_equal(crop_of(decoder, picture, (0, 0, row)), expected)


def test_flipping_mirrors_about_half_of_the_crops_and_moves_none(decoder):
    picture = noise(50, 60)
    mirrored = 0
    for row in range(100):
        plain, flipped = (crop_of(decoder, picture, (0, 0, row), flip) for flip in (False, True))
        mirrored += np.array_equal(flipped, plain[:, ::-1])
        assert np.array_equal(flipped, plain) or np.array_equal(flipped, plain[:, ::-1])
        assert flipped.flags.c_contiguous
    assert 30 <= mirrored <= 70


@pytest.mark.parametrize('side', [1, 2, 7, SIDE, SIDE + 1, 33, 100, 301])
def test_resizing_equals_pillows_bicubic_to_the_bit(side, decoder):
    for picture in (noise(side, side, side), np.eye(side, dtype=np.uint8)[..., None].repeat(3, 2) * 255):
        assert np.array_equal(decoder.whole(picture), pillow_resized(picture))


@pytest.mark.parametrize('height, width, box', [(40, 61, (0, 10, 40, 40)), (75, 32, (21, 0, 32, 32)),
                                                (20, 20, (0, 0, 20, 20)), (16, 19, (0, 1, 16, 16))])
def test_the_whole_of_a_picture_is_its_central_square(height, width, box, decoder):
    data = jpeg(noise(height, width))
    picture = np.asarray(Image.open(io.BytesIO(data)))
    whole = decoder.whole(decoder.decoded(data))
    assert np.array_equal(whole, pillow_resized(picture, box)), 'decoded as Pillow does, in RGB'
    assert (whole.shape, whole.dtype) == ((SIDE, SIDE, 3), np.uint8)


@pytest.mark.parametrize('height, width, box', [(40, 61, (0, 5, 40, 50)), (75, 30, (25, 0, 24, 30)),
                                                (16, 20, (0, 0, 16, 20))])
def test_the_whole_of_a_picture_is_its_central_part_of_the_models_aspect(height, width, box):
    picture, decoder = noise(height, width), Decoder((16, 20))
    assert decoder.view(height, width)[:4] == box
    top, left, seen_height, seen_width = box
    cut = Image.fromarray(picture[top:top + seen_height, left:left + seen_width])
    assert np.array_equal(decoder.whole(picture), np.asarray(cut.resize((20, 16), Image.Resampling.BICUBIC)))


@pytest.mark.parametrize('height, width, covering', [(40, 61, (16, 24)), (75, 30, (50, 20)), (8, 10, (16, 20))])
def test_the_fits_of_other_projects_take_any_shape(height, width, covering):
    picture = Image.fromarray(noise(height, width))
    squashed = picture.resize((20, 16), Image.Resampling.BICUBIC)
    assert np.array_equal(Decoder((16, 20), 'squash').whole(np.asarray(picture)), np.asarray(squashed))
    larger = np.asarray(picture.resize(covering[::-1], Image.Resampling.BICUBIC))
    top, left = (covering[0] - 16) // 2, (covering[1] - 20) // 2
    assert np.array_equal(Decoder((16, 20), 'shortest').whole(np.asarray(picture)),
                          larger[top:top + 16, left:left + 20])


def photograph(height, width):
    """Soft shapes, as photographs have them."""
    small = Image.fromarray(noise(height // 40, width // 40))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


@pytest.mark.parametrize('mirrored', [False, True])
@pytest.mark.parametrize('view', [(0, 0, 40, 60), (3, 5, 30, 31), (9, 0, SIDE, SIDE), (0, 20, 10, 40)], ids=str)
def test_a_crop_of_few_pixels_is_exactly_the_view_of_the_whole_picture(view, mirrored, decoder):
    data, view = jpeg(noise(40, 60)), View(*view, mirrored)
    assert crop_scale(view, SQUARE) == 1
    assert np.array_equal(decoder.crop(opened(data), view), decoder.see(decoder.decoded(data), view))


@pytest.mark.parametrize('mirrored', [False, True])
@pytest.mark.parametrize('scale, view', [(2, (7, 11, 64, 71)), (4, (1, 0, 133, 140)), (8, (37, 3, 260, 301)),
                                         (8, (0, 0, 301, 403)), (2, (150, 200, 100, 203))], ids=str)
def test_a_crop_of_many_pixels_shows_the_same_as_the_whole_picture(scale, view, mirrored, decoder):
    """Nothing is moved: moved by one pixel it would be less alike."""
    data, view = jpeg(photograph(301, 403)), View(*view, mirrored)
    assert crop_scale(view, SQUARE) == scale
    crop, whole = decoder.crop(opened(data), view).astype(int), decoder.decoded(data)
    assert crop.shape == (*SQUARE, 3)

    def distance(top, left):
        moved = np.roll(whole, (top, left), (0, 1))
        return np.abs(crop - decoder.see(moved, view)).mean()
    assert distance(0, 0) < 0.7
    assert all(distance(0, 0) < distance(*by) for by in ((1, 0), (-1, 0), (0, 1), (0, -1)))


def test_a_decoder_leaves_two_pixels_for_each_of_the_models():
    assert [crop_scale(View(0, 0, side, side), (48, 48)) for side in (95, 191, 192, 383, 384, 767, 768, 9999)] == [
        1, 1, 2, 2, 4, 4, 8, 8]
    assert crop_scale(View(0, 0, 400, 100), (48, 48)) == 1
    assert crop_scale(View(0, 0, 200, 400), (48, 96)) == 2
