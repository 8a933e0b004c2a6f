"""Whatever Pillow opens becomes the right RGB picture, and MindSpore's C++ decoder reads it; the rest is rejected."""
import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from hcma.data import images
from hcma.data.images import ImageRejected, clean_jpeg, decode_rgb, to_rgb

RAMP = np.linspace(0, 65535, 48 * 32).reshape(32, 48)
GREY8 = RAMP / 257
COLOUR = Image.fromarray(np.stack([GREY8, GREY8[::-1], np.full_like(GREY8, 128)], -1).astype(np.uint8))


def encode(image, format, **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def distance(image, other):
    """Mean absolute difference of two pictures, in grey levels."""
    return np.abs(np.asarray(image, np.float32) - np.asarray(other, np.float32)).mean()


def reason(data, **options):
    with pytest.raises(ImageRejected) as caught:
        clean_jpeg(data, **options)
    return str(caught.value)


@pytest.mark.parametrize('options', [{}, {'progressive': True}, {'subsampling': 0}, {'keep_rgb': True},
                                     {'restart_marker_rows': 1}], ids=str)
def test_clean_rgb_jpeg_keeps_its_bytes(options):
    data = encode(COLOUR, 'JPEG', **options)
    assert clean_jpeg(data) == data
    assert clean_jpeg(data, max_side=48) == data


@pytest.mark.parametrize('format', ['PNG', 'BMP', 'GIF', 'WEBP', 'TIFF', 'PPM', 'TGA', 'JPEG2000'])
def test_every_format_becomes_the_same_picture(format):
    options = {'lossless': True} if format == 'WEBP' else {}
    flat = COLOUR.quantize(64).convert('RGB')
    assert distance(decode_rgb(encode(flat, format, **options)), flat) < 1
    with Image.open(io.BytesIO(clean_jpeg(encode(flat, format, **options)))) as packed:
        assert (packed.format, packed.mode, packed.size) == ('JPEG', 'RGB', flat.size)
        assert distance(packed, flat) < 3


@pytest.mark.parametrize('format', ['JPEG', 'PNG', 'WEBP', 'TIFF'])
@pytest.mark.parametrize('orientation', range(1, 9))
def test_exif_orientation_is_applied_once(format, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(COLOUR, format, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert('RGB')
    packed = Image.open(io.BytesIO(clean_jpeg(data)))
    assert packed.size == expected.size
    assert distance(packed, expected) < 3
    assert packed.getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize('format', ['PNG', 'TIFF', 'PPM'])
def test_sixteen_bits_are_scaled_not_saturated(format):
    got = decode_rgb(encode(Image.fromarray(RAMP.astype(np.uint16)), format))
    assert np.abs(np.asarray(got)[..., 1] - GREY8).max() <= 0.51


@pytest.mark.parametrize('values, white', [(RAMP / 65535, 1), (GREY8, 255), (RAMP, 65535), (RAMP * 100, 6553500)])
def test_float_greys_are_scaled_to_the_smallest_usual_white(values, white):
    got = decode_rgb(encode(Image.fromarray(values.astype(np.float32)), 'TIFF'))
    assert np.abs(np.asarray(got)[..., 0] - values / white * 255).max() <= 0.51


def test_not_a_number_is_black():
    assert decode_rgb(encode(Image.fromarray(np.full((4, 4), np.nan, np.float32)), 'TIFF')).getpixel((0, 0)) == (0,) * 3


@pytest.mark.parametrize('mode', ['RGBA', 'RGBX', 'CMYK', 'YCbCr', 'LAB', 'HSV', 'RGBa'])
def test_colour_modes_keep_their_colours(mode):
    image = COLOUR.convert('RGBA').convert(mode) if mode == 'RGBa' else COLOUR.convert(mode)
    assert distance(to_rgb(image), COLOUR) < 3


def test_grey_and_one_bit_modes_keep_their_greys():
    grey = Image.fromarray(GREY8.astype(np.uint8))
    for image in (grey, grey.convert('LA'), grey.convert('LA').convert('La'), grey.convert('I'), grey.convert('F')):
        assert distance(to_rgb(image), grey.convert('RGB')) < 1, image.mode
    assert decode_rgb(encode(Image.new('1', (4, 4), 1), 'PNG')).getpixel((0, 0)) == (255, 255, 255)
    with Image.open(io.BytesIO(clean_jpeg(encode(grey, 'JPEG')))) as packed:
        assert packed.mode == 'RGB'


def test_cmyk_jpeg_is_red_where_it_was_red():
    red = clean_jpeg(encode(Image.new('CMYK', (16, 16), (0, 255, 255, 0)), 'JPEG'))
    assert distance(Image.open(io.BytesIO(red)), Image.new('RGB', (16, 16), 'red')) < 2


@pytest.mark.parametrize('image, options', [
    (Image.new('RGBA', (8, 8), (255, 0, 0, 0)), {}),
    (Image.new('LA', (8, 8), (0, 0)), {}),
    (Image.new('RGB', (8, 8), 'red'), {'transparency': (255, 0, 0)}),
    (Image.new('L', (8, 8), 7), {'transparency': 7}),
    (Image.new('RGB', (8, 8), 'red').quantize(4), {'transparency': 0}),
], ids=lambda value: getattr(value, 'mode', None))
def test_transparent_is_white(image, options):
    assert decode_rgb(encode(image, 'PNG', **options)).getpixel((4, 4)) == (255, 255, 255)


def test_half_transparent_is_half_white():
    assert decode_rgb(encode(Image.new('RGBA', (8, 8), (255, 0, 0, 128)), 'PNG')).getpixel((4, 4)) == (255, 127, 127)


@pytest.mark.parametrize('format', ['GIF', 'WEBP', 'PNG', 'TIFF'])
def test_animation_gives_its_first_frame(format):
    frames = [Image.new('RGB', (16, 16), colour) for colour in ('blue', 'red')]
    data = encode(frames[0], format, save_all=True, append_images=frames[1:])
    assert distance(decode_rgb(data), frames[0]) < 1


@pytest.mark.parametrize('format', ['JPEG', 'PNG', 'GIF'])
def test_max_side_shrinks_to_the_same_picture(format):
    large = COLOUR.resize((480, 320), Image.Resampling.BICUBIC)
    packed = Image.open(io.BytesIO(clean_jpeg(encode(large, format), max_side=48)))
    assert packed.size == (48, 32)
    assert distance(packed, large.resize((48, 32), Image.Resampling.LANCZOS)) < 6


def test_a_very_thin_picture_shrinks_to_at_least_one_pixel():
    assert decode_rgb(encode(Image.new('RGB', (1000, 2)), 'PNG'), max_side=10).size == (10, 1)


def test_rejected_with_the_reason(monkeypatch):
    jpeg, png = encode(COLOUR, 'JPEG'), encode(COLOUR, 'PNG')
    assert reason(b'') == 'empty file'
    assert reason(b'no picture at all') == 'not an image'
    assert reason(b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n') == 'not an image'
    assert reason(jpeg[:len(jpeg) // 2]) == 'truncated image'
    assert reason(png[:len(png) // 2]) == 'truncated image'
    assert reason(encode(Image.new('1', (66_000, 1)), 'PNG')).startswith('too long for JPEG:')
    monkeypatch.setattr(images, 'MAX_PIXELS', 1000)
    assert reason(png) == 'too large: 48 x 32 pixels'


def test_decompression_bomb_never_decodes(monkeypatch):
    bomb = encode(Image.new('1', (15_000, 12_000)), 'PNG')
    monkeypatch.setattr(Image.Image, 'load', lambda self: pytest.fail('decoded'))
    assert reason(bomb).startswith('too large:')


def test_random_damage_is_a_picture_or_a_rejection_and_mindspore_decodes_what_is_kept(tmp_path, monkeypatch):
    from mindspore.dataset import vision
    monkeypatch.chdir(tmp_path)  # the C++ decoder leaves abnormal_image.jpg where it fails
    decode, random = vision.Decode(), np.random.default_rng(0)
    sources = [encode(COLOUR, 'JPEG'), encode(COLOUR, 'JPEG', progressive=True), encode(COLOUR, 'PNG'),
               encode(COLOUR, 'GIF'), encode(COLOUR, 'WEBP'), encode(COLOUR, 'TIFF')]
    kept = 0
    for data in sources * 20:
        damaged = np.frombuffer(data, np.uint8).copy()
        damaged[random.integers(0, len(damaged), 2)] = random.integers(0, 256, 2)
        try:
            packed = clean_jpeg(damaged[:random.integers(len(data) // 2, 2 * len(data))].tobytes())
        except ImageRejected:
            continue
        kept += 1
        with Image.open(io.BytesIO(packed)) as image:
            assert decode(np.frombuffer(packed, np.uint8)).shape == (image.height, image.width, 3)
    assert kept > 20


@pytest.mark.parametrize('options', [{}, {'progressive': True}, {'keep_rgb': True}], ids=str)
def test_mindspore_decodes_a_kept_jpeg_as_pillow_does(options):
    from mindspore.dataset import vision
    data = clean_jpeg(encode(COLOUR, 'JPEG', **options))
    assert distance(vision.Decode()(np.frombuffer(data, np.uint8)), decode_rgb(data)) < 1
