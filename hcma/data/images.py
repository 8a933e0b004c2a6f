"""Any bytes that Pillow opens become the right RGB picture; everything else is rejected with its reason.

``clean_jpeg`` makes what a pack holds, ``decode_rgb`` a picture for direct use: one path for both, so that a loose
file and its packed copy look alike. Needs no MindSpore.
"""
import contextlib
import io
import warnings

import numpy as np
from PIL import Image

# As many pixels as Pillow itself accepts at most; a picture beyond is refused by its header, before any decoding.
MAX_PIXELS = 178_956_970
MAX_JPEG_SIDE = 65_500
JPEG_QUALITY = 95

# EPS is a program that Ghostscript would run, not a picture.
_REFUSED_FORMATS = {'EPS'}
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

warnings.simplefilter('ignore', Image.DecompressionBombWarning)
Image.init()
_FORMATS = [name for name in Image.OPEN if name not in _REFUSED_FORMATS]


class ImageRejected(Exception):
    """Why an image cannot be used: a kind, or a kind, a colon and a detail (``too large: 40000 x 40000 pixels``)."""


def clean_jpeg(data, max_side=None):
    """Return ``data`` as a clean RGB JPEG, with no side above ``max_side`` pixels where that is given.

    A whole three-component JPEG that is upright and small enough keeps its bytes; all else is encoded anew.
    Raises ``ImageRejected``.
    """
    with _rejecting():
        picture, as_stored = _load(data, max_side)
        if as_stored and _is_plain_jpeg(data):
            return data
        if max(picture.size) > MAX_JPEG_SIDE:
            raise ImageRejected(f'too long for JPEG: {picture.width} x {picture.height} pixels')
        picture.info = {}  # else a GIF's comment would travel into the JPEG
        buffer = io.BytesIO()
        picture.save(buffer, 'JPEG', quality=JPEG_QUALITY, subsampling=0)
        return buffer.getvalue()


def decode_rgb(data, max_side=None):
    """Return ``data`` as an upright RGB ``PIL.Image``. Raises ``ImageRejected``."""
    with _rejecting():
        return _load(data, max_side)[0]


@contextlib.contextmanager
def _rejecting():
    """Turn whatever broken data makes Pillow raise into ``ImageRejected``."""
    try:
        yield
    except ImageRejected:
        raise
    except Image.DecompressionBombError as error:
        raise ImageRejected(f'too large: {error}') from error
    except Image.UnidentifiedImageError as error:
        raise ImageRejected('not an image') from error
    except MemoryError as error:
        raise ImageRejected('too large: out of memory') from error
    except Exception as error:  # the plugins of Pillow raise nearly anything
        if 'truncated' in str(error).lower():
            raise ImageRejected('truncated image') from error
        raise ImageRejected(f'broken image: {error}') from error


def _load(data, max_side):
    """Return (upright RGB picture, whether it is an RGB JPEG just as stored)."""
    if not data:
        raise ImageRejected('empty file')
    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
        _check_size(image.size)
        return _upright_rgb(image, max_side)


def _check_size(size):
    width, height = size
    if width * height > MAX_PIXELS:
        raise ImageRejected(f'too large: {width} x {height} pixels')
    if width * height == 0:
        raise ImageRejected(f'no pixels: {width} x {height}')


def _upright_rgb(image, max_side):
    shrinks = max_side is not None and max(image.size) > max_side
    stored_as_rgb = image.format == 'JPEG' and image.mode == 'RGB'
    if shrinks and image.format == 'JPEG':
        image.draft(None, _fit(image.size, 2 * max_side))  # decodes at 1/2, 1/4 or 1/8, still twice what is needed
    image.load()
    turn = _turn(image)
    picture = to_rgb(image)
    if shrinks:
        picture = picture.resize(_fit(picture.size, max_side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    if turn is not None:
        picture = picture.transpose(turn)
    return picture, stored_as_rgb and not shrinks and turn is None


def _turn(image):
    """Return the transposition that EXIF asks for, or None. Read after loading, as Pillow itself turns a TIFF then."""
    try:
        return _TURNS.get(image.getexif().get(_ORIENTATION))
    except Exception:  # a malformed EXIF block says nothing about the picture
        return None


def _fit(size, max_side):
    scale = max_side / max(size)
    return tuple(max(1, round(side * scale)) for side in size)


def to_rgb(image):
    """Return a loaded image of any mode as RGB: alpha over white, deep greyscale scaled to 8 bits."""
    if image.mode in ('I', 'F') or image.mode.startswith('I;16'):
        return Image.fromarray(_grey8(image)).convert('RGB')
    if image.mode in ('RGBa', 'La'):  # premultiplied
        image = image.convert(image.mode.upper())
    if image.has_transparency_data:
        return _over_white(image.convert('RGBA'))
    return image.convert('RGB')


def _over_white(image):
    return Image.alpha_composite(Image.new('RGBA', image.size, 'white'), image).convert('RGB')


def _grey8(image):
    """Return a deep greyscale image as uint8 (height, width), scaled rather than saturated."""
    values = np.nan_to_num(np.asarray(image).astype(np.float32), posinf=0, neginf=0)
    low = min(0.0, float(values.min()))
    high = _white(image, float(values.max()))
    return np.round((values - low) * (255 / (high - low))).astype(np.uint8)


def _white(image, largest):
    """Return the value that means white: the format's own, else the smallest usual one that holds ``largest``."""
    if image.mode.startswith('I;16') or image.format in ('PNG', 'PPM'):
        return 65535.0
    usual = (1.0, 255.0, 65535.0) if image.mode == 'F' else (255.0, 65535.0)
    return next((white for white in usual if largest <= white), largest)


def _is_plain_jpeg(data):
    """Whether a JPEG's frame is baseline, extended or progressive Huffman, which every decoder reads."""
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return marker in (0xC0, 0xC1, 0xC2)
        else:
            position += 2 + int.from_bytes(data[position + 2:position + 4], 'big')
    return False
