"""JPEG bytes to pictures of one fixed size, with MindSpore's C++ operations.

Where a training crop lies is a pure function of (seed, epoch, row): the same sample looks the same whatever the
number of workers or devices, and however often the run was resumed.
"""
import math
from typing import NamedTuple

import mindspore.dataset.vision as vision
import numpy as np
from PIL import Image

_ATTEMPTS = 10


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
    """Decodes to (S, S, 3) uint8; PILCUBIC equals Pillow's antialiased bicubic resize to the bit.

    ``fit`` is how a whole picture becomes a square, as ``model.image.fit`` says. Fits other than 'square' are by Pillow
    itself: where the sides change by different factors, it may resize the height first, and the C++ operation never
    does (up to 11 levels apart). They come before any cut, as the projects have it whose weights are converted.
    """

    def __init__(self, size, fit='square'):
        self.size, self.fit = size, fit
        self.decode = vision.Decode()
        self.resize = vision.Resize((size, size), vision.Inter.PILCUBIC)

    def decoded(self, jpeg):
        """All of a JPEG's picture (height, width, 3) uint8."""
        return self.decode(np.frombuffer(jpeg, np.uint8))

    def square(self, picture):
        """A picture (height, width, 3) uint8 as a square, as in evaluation."""
        height, width = picture.shape[:2]
        if self.fit == 'squash':
            return resized(picture, self.size, self.size)
        if self.fit == 'shortest':  # the longest side is rounded down, as in CLIP's code
            side = min(height, width)
            picture = resized(picture, height * self.size // side, width * self.size // side)
        return self.see(picture, central_view(*picture.shape[:2]))

    def view(self, height, width):
        """The ``View`` of a picture of this size that ``square`` shows, but for less than a pixel."""
        return View(0, 0, height, width) if self.fit == 'squash' else central_view(height, width)

    def see(self, picture, view):
        """What the ``View`` shows of a picture (height, width, 3) uint8."""
        cut = picture[view.top:view.top + view.height, view.left:view.left + view.width]
        if cut.shape[:2] != (self.size, self.size):
            cut = self.resize(np.ascontiguousarray(cut))
        return np.ascontiguousarray(cut[:, ::-1] if view.mirrored else cut)


def central_view(height, width):
    """The view of the central square."""
    side = min(height, width)
    return View((height - side) // 2, (width - side) // 2, side, side)


def random_view(height, width, generator, area, aspect, flip):
    """The view of a random crop, with its share of the area and its aspect ratio in the given ranges; with ``flip``
    mirrored in half of all cases.
    """
    box = random_box(height, width, generator, area, aspect)
    return View(*box, flip and generator.random() < 0.5)


def resized(picture, height, width):
    """A picture (., ., 3) uint8 at (height, width, 3) by Pillow's bicubic resize."""
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


def random_box(height, width, generator, area, aspect):
    """A (top, left, height, width) within the picture; its central square where ten draws do not fit."""
    for _ in range(_ATTEMPTS):
        pixels = generator.uniform(*area) * height * width
        ratio = math.exp(generator.uniform(*np.log(aspect)))
        box_width, box_height = round(math.sqrt(pixels * ratio)), round(math.sqrt(pixels / ratio))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = int(generator.integers(height - box_height + 1))
            left = int(generator.integers(width - box_width + 1))
            return top, left, box_height, box_width
    return central_view(height, width)[:4]
