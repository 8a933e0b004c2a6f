"""JPEG bytes to pictures of one fixed size, with MindSpore's C++ operations.

Where a training crop lies is a pure function of (seed, epoch, row): the same sample looks the same whatever the
number of workers or devices, and however often the run was resumed.
"""
import math
from typing import NamedTuple

import mindspore.dataset.vision as vision
import numpy as np

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
    """Decodes to (S, S, 3) uint8; PILCUBIC equals Pillow's antialiased bicubic resize to the bit."""

    def __init__(self, size):
        self.size = size
        self.decode = vision.Decode()
        self.resize = vision.Resize((size, size), vision.Inter.PILCUBIC)

    def decoded(self, jpeg):
        """All of a JPEG's picture (height, width, 3) uint8."""
        return self.decode(np.frombuffer(jpeg, np.uint8))

    def square(self, picture):
        """The central square of a picture (height, width, 3) uint8, as in evaluation."""
        return self.see(picture, central_view(*picture.shape[:2]))

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
