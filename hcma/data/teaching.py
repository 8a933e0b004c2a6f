"""What a teacher reads of a training sample, besides what its student reads: further columns of the batch."""
from typing import NamedTuple

import numpy as np

from hcma.data.alignment import Alignment
from hcma.data.captions import Captions
from hcma.data.crops import Decoder, View, opened
from hcma.data.regions import Regions


class Seen(NamedTuple):
    """A sample as it was drawn: the JPEG of ``height`` x ``width``, what is seen of it, the caption and its parts."""
    augmentation: int
    row: int
    jpeg: np.ndarray
    height: int
    width: int
    view: View
    caption: str
    chunks: tuple
    boxes: list


class TeacherInputs:
    """The same crop at the teacher's size, perhaps boxes, the same caption by its tokenizer, and how words align.

    ``recipe`` is the teacher's, ``own`` the student's tokenizer.
    """

    def __init__(self, recipe, tokenizer, own):
        self.decoder = Decoder(recipe.model.image.pixels)
        self.captions, self.regions = Captions(recipe.model, tokenizer), Regions(recipe.model)
        self.align = Alignment(own, tokenizer)
        self.reads = {'boxes': self.regions.wanted, 'chunks': self.captions.wanted}
        self.columns = tuple(f'teacher_{name}' for name in recipe.image_columns[:1] + ('boxes',) * self.regions.wanted
                             + recipe.text_columns) + ('align',)

    def __call__(self, seen):
        picture = self.decoder.crop(opened(seen.jpeg), seen.view)
        boxes = self.regions(seen.boxes, seen.view, seen.height, seen.width)
        return (picture, *boxes, *self.captions.one(seen.caption, seen.chunks), self.align(seen.caption))


class TeacherPlaces:
    """Where the teacher's features of a sample are in a cache: its augmentation, its row, and how words align."""
    reads = {'boxes': False, 'chunks': False}
    columns = 'augmentation', 'row', 'align'

    def __init__(self, tokenizer, own):
        self.align = Alignment(own, tokenizer)

    def __call__(self, seen):
        return np.int32(seen.augmentation), np.int64(seen.row), self.align(seen.caption)
