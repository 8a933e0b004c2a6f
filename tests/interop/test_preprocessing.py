"""Pixels are those of Pillow's bicubic resize, for every way in which a picture becomes a square."""
import json

import numpy as np
import pytest
from PIL import Image

from hcma.data.crops import Decoder
from hcma.errors import InputError
from hcma.interop.preprocessing import read_preprocessing, write_preprocessing

SIZES = [(40, 30), (30, 40), (33, 57), (20, 64), (10, 9), (24, 24), (160, 24)]


def expected(picture, size, fit):
    """As Hugging Face's and OpenAI's preprocessing, with Pillow."""
    image = Image.fromarray(picture)
    if fit == 'squash':
        return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))
    side = min(image.size)
    width, height = (int(size * length / side) for length in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(image.crop((left, top, left + size, top + size)))


@pytest.mark.parametrize('fit', ['shortest', 'squash'])
@pytest.mark.parametrize('shape', SIZES, ids=str)
def test_whole_pictures_are_pillows_to_the_bit(fit, shape):
    picture = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    assert np.array_equal(Decoder((24, 24), fit).whole(picture), expected(picture, 24, fit))


@pytest.mark.parametrize('config, fit', [
    ({'size': 8, 'crop_size': 8}, 'shortest'), ({'size': {'shortest_edge': 8}, 'crop_size': {'height': 8, 'width': 8}},
                                                'shortest'),
    ({'size': {'height': 8, 'width': 8}, 'do_center_crop': False}, 'squash'), ({}, 'shortest')])
def test_every_usual_description_is_read(config, fit):
    assert read_preprocessing({**config, 'image_mean': [0, 0.5, 1]}, 8, 'p.json') == {'fit': fit, 'mean': [0, 0.5, 1]}


def test_what_is_written_is_read_again(make_recipe):
    for fit in ('shortest', 'squash'):
        image = make_recipe({'image': {'fit': fit, 'mean': [0.1, 0.2, 0.3]}}).model.image
        again = read_preprocessing(json.loads(json.dumps(write_preprocessing(image))), 16, 'p.json')
        assert again == {'fit': fit, 'mean': list(image.mean), 'deviation': list(image.deviation)}


@pytest.mark.parametrize('config, message', [({'resample': 2}, 'resample is 2'), ({'size': 9}, 'of 8 x 8 pixels'),
                                             ({'crop_size': {'height': 8, 'width': 9}}, 'of 8 x 8 pixels'),
                                             ({'do_center_crop': False}, 'of 8 x 8 pixels'),
                                             ({'do_resize': False}, 'of 8 x 8 pixels')])
def test_other_preprocessing_is_refused(config, message):
    with pytest.raises(InputError, match=message):
        read_preprocessing(config, 8, 'p.json')
