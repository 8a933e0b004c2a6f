"""Questions about pictures as fixed-shape batches."""
import numpy as np
from mindspore import Tensor

from hcma.errors import InputError


class QuestionBatches:
    """Epochs of batches ``image (B, ...), ids (B, L) int32, length (B,) int32, answer (B,) int32``.

    ``images`` (N, ...) are the pictures or their features, ``row`` (questions,) says which one each question is about.
    Every epoch shuffles all questions by (seed, epoch) alone and drops the last incomplete batch.
    """

    def __init__(self, images, row, ids, lengths, answers, recipe):
        self.images, self.columns = images, (ids, lengths, answers)
        self.row, self.seed, self.batch = row, recipe.seed, recipe.train.batch_size
        if len(row) < self.batch:
            raise InputError(f'train.batch_size: {self.batch} is more than the {len(row)} questions of '
                             f'{recipe.data.train} with an answer in the vocabulary; take a smaller batch')

    def size(self, epoch):
        """How many questions are in a batch."""
        return self.batch

    def steps(self, epoch):
        """How many batches an epoch has."""
        return len(self.row) // self.batch

    def epoch(self, number, start=0):
        """Iterate over the batches of epoch ``number`` from step ``start`` on."""
        order = np.random.default_rng((self.seed, number)).permutation(len(self.row))
        for step in range(start, self.steps(number)):
            chosen = order[step * self.batch:(step + 1) * self.batch]
            yield [Tensor(part) for part in (self.images[self.row[chosen]], *(c[chosen] for c in self.columns))]
