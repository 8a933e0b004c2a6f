"""JPEG bytes to pictures of one fixed size, with MindSpore's C++ operations.

Where a training crop lies is a pure function of (seed, epoch, row): the same sample looks the same whatever the
number of workers or devices, and however often the run was resumed.
"""
import math

import mindspore.dataset.vision as vision
import numpy as np

_ATTEMPTS = 10


def sample_generator(seed, epoch, row):
    """The random generator that makes every choice about one sample in one epoch.

    Philox is a function of its key: it starts four times as fast as a generator that is seeded.
    """
    return np.random.Generator(np.random.Philox(key=[seed << 32 | epoch, row]))


class Decoder:
    """Decodes to (S, S, 3) uint8; PILCUBIC equals Pillow's antialiased bicubic resize to the bit.

    ``fit`` is how a whole picture becomes a square, as ``model.image.fit`` says; training crops are squares anyhow.
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
        if self.fit == 'squash':
            return self._cut(picture, 0, 0, height, width)
        side = min(height, width)
        if self.fit == 'shortest' and height != width:
            picture = self._shortest(picture, side)
            height, width = picture.shape[:2]
            side = self.size
        return self._cut(picture, (height - side) // 2, (width - side) // 2, side, side)

    def _shortest(self, picture, side):
        """The picture with its shortest ``side`` at the size; the other is rounded down, as CLIP's code does."""
        height, width = (length * self.size // side for length in picture.shape[:2])
        return vision.Resize((height, width), vision.Inter.PILCUBIC)(np.ascontiguousarray(picture))

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
