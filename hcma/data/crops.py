"""JPEG bytes to pictures of one fixed size, by Pillow, which lets other threads run while it decodes and resizes.

Where a training crop lies is a pure function of (seed, epoch, row): the same sample looks the same whatever the
number of workers or devices, and however often the run was resumed.
"""
import functools
import io
import math
from typing import NamedTuple

import numpy as np
from PIL import Image

_ATTEMPTS = 10
_SCALES = 8, 4, 2  # that a JPEG decoder can leave out of each side
LEAST = 2  # pixels of a crop that it leaves for each of the model's, each way


def sample_generator(seed, epoch, row):
    """The random generator that makes every choice about one sample in one epoch.

    Philox is a function of its key: it starts four times as fast as a generator that is seeded.
    """
    return np.random.Generator(np.random.Philox(key=[seed << 32 | epoch, row]))


class View(NamedTuple):
    """The rectangle of a picture that is seen, in pixels, mirrored or not."""
    top: int
    left: int
    height: int
    width: int
    mirrored: bool = False


class Decoder:
    """Decodes to (H, W, 3) uint8, resized by Pillow's antialiased bicubic filter.

    ``pixels`` (H, W) and ``fit``, how a whole picture takes that shape, are those of the recipe's ``model.image``. Fits
    other than 'square' come before any cut, as the projects have it whose weights are converted.
    """

    def __init__(self, pixels, fit='square'):
        self.pixels, self.fit = pixels, fit

    def decoded(self, jpeg):
        """All of a JPEG's picture (height, width, 3) uint8."""
        return np.asarray(opened(jpeg))

    def crop(self, image, view):
        """What the ``View`` shows of a picture that was ``opened`` and not yet decoded.

        Like ``see``, but that the decoder leaves out pixels (by its own filter, at 1/2, 1/4 or 1/8) of which the crop
        has several for each of the model's. The least that it leaves is ``LEAST`` for each, each way.
        """
        (width, height), scale = image.size, crop_scale(view, self.pixels)
        if scale > 1:
            image.draft(None, (width // scale, height // scale))
        left, top = view.left / scale, view.top / scale
        right, bottom = left + view.width / scale, top + view.height / scale
        # Cut first: the filter must not see what the crop does not show.
        first, upper = int(left), int(top)
        cut = image.crop((first, upper, math.ceil(right), math.ceil(bottom)))
        cut = cut.resize(self.pixels[::-1], Image.Resampling.BICUBIC,
                         (left - first, top - upper, right - first, bottom - upper))
        return np.array(cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if view.mirrored else cut)

    def whole(self, picture):
        """A picture (height, width, 3) uint8 in the model's shape, as in evaluation."""
        if self.fit == 'squash':
            return resized(picture, *self.pixels)
        if self.fit == 'shortest':
            picture = resized(picture, *covering(*picture.shape[:2], self.pixels))
        return self.see(picture, central_view(*picture.shape[:2], self.pixels))

    def view(self, height, width):
        """The ``View`` of a picture of this size that ``whole`` shows, but for less than a pixel."""
        return View(0, 0, height, width) if self.fit == 'squash' else central_view(height, width, self.pixels)

    def see(self, picture, view):
        """What the ``View`` shows of a picture (height, width, 3) uint8."""
        cut = picture[view.top:view.top + view.height, view.left:view.left + view.width]
        if cut.shape[:2] != self.pixels:
            cut = resized(np.ascontiguousarray(cut), *self.pixels)
        return np.ascontiguousarray(cut[:, ::-1] if view.mirrored else cut)


def opened(jpeg):
    """A packed JPEG as an ``Image`` that is decoded when its pixels are asked for."""
    return Image.open(io.BytesIO(jpeg), formats=('JPEG',))


def crop_scale(view, pixels):
    """By how much a decoder may shrink the picture of which a model of ``pixels`` (H, W) is shown the ``view``."""
    return next((scale for scale in _SCALES
                 if view.height >= LEAST * scale * pixels[0] and view.width >= LEAST * scale * pixels[1]), 1)


def covering(height, width, pixels):
    """The least (height, width) of a picture's aspect that covers ``pixels``, the longer side rounded down as by CLIP.
    """
    if height * pixels[1] <= width * pixels[0]:
        return pixels[0], width * pixels[0] // height
    return height * pixels[1] // width, pixels[1]


def central_view(height, width, pixels):
    """The view of the largest central part that has the aspect of ``pixels`` (height, width)."""
    seen_height = min(height, max(1, width * pixels[0] // pixels[1]))
    seen_width = min(width, max(1, height * pixels[1] // pixels[0]))
    return View((height - seen_height) // 2, (width - seen_width) // 2, seen_height, seen_width)


def random_view(height, width, generator, area, aspect, flip, pixels):
    """The view of a random crop, with its share of the area and its aspect ratio in the given ranges; with ``flip``
    mirrored in half of all cases. An aspect of 1 is that of ``pixels``, what the crop is resized to.
    """
    box = random_box(height, width, generator, area, aspect, pixels)
    return View(*box, flip and generator.random() < 0.5)


def resized(picture, height, width):
    """A picture (., ., 3) uint8 at (height, width, 3) by Pillow's bicubic resize."""
    return np.array(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


def random_box(height, width, generator, area, aspect, pixels):
    """A (top, left, height, width) within the picture; its central part where ten draws do not fit."""
    narrowest, widest = _logarithms(*aspect)
    for _ in range(_ATTEMPTS):
        count = (area[0] + (area[1] - area[0]) * generator.random()) * height * width
        ratio = math.exp(narrowest + (widest - narrowest) * generator.random()) * (pixels[1] / pixels[0])
        box_width, box_height = round(math.sqrt(count * ratio)), round(math.sqrt(count / ratio))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = int(generator.integers(height - box_height + 1))
            left = int(generator.integers(width - box_width + 1))
            return top, left, box_height, box_width
    return central_view(height, width, pixels)[:4]


@functools.lru_cache
def _logarithms(*numbers):
    return np.log(numbers).tolist()
