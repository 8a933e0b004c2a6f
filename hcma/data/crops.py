"""JPEG bytes to pictures of one fixed size, with MindSpore's C++ operations.

Where a training crop lies is a pure function of (seed, epoch, row): the same sample looks the same whatever the
number of workers or devices, and however often the run was resumed.
"""
import math

import mindspore.dataset.vision as vision
import numpy as np
from PIL import Image

_ATTEMPTS = 10


def sample_generator(seed, epoch, row):
    """The random generator that makes every choice about one sample in one epoch.

    Philox is a function of its key: it starts four times as fast as a generator that is seeded.
    """
    return np.random.Generator(np.random.Philox(key=[seed << 32 | epoch, row]))


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

    def whole(self, jpeg):
        """A whole JPEG as a square, as in evaluation."""
        return self.square(self.decode(np.frombuffer(jpeg, np.uint8)))

    def square(self, picture):
        """A decoded picture (height, width, 3) uint8 as a square."""
        height, width = picture.shape[:2]
        side = min(height, width)
        if self.fit == 'squash':
            return resized(picture, self.size, self.size)
        if self.fit == 'shortest':  # the longest side is rounded down, as in CLIP's code
            picture = resized(picture, height * self.size // side, width * self.size // side)
            (height, width), side = picture.shape[:2], self.size
        return self._cut(picture, (height - side) // 2, (width - side) // 2, side, side)

    def crop(self, picture, generator, area, aspect, flip):
        """A random crop of a decoded picture, with its share of the area and its aspect ratio in the given ranges;
        with ``flip`` mirrored in half of all cases.
        """
        cut = self._cut(picture, *random_box(picture.shape[0], picture.shape[1], generator, area, aspect))
        return np.ascontiguousarray(cut[:, ::-1]) if flip and generator.random() < 0.5 else cut

    def _cut(self, picture, top, left, height, width):
        box = picture[top:top + height, left:left + width]
        if box.shape[:2] == (self.size, self.size):
            return np.ascontiguousarray(box)
        return self.resize(np.ascontiguousarray(box))


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
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side
