"""The parts of a student's loss against its teacher, each a cell that picks what it compares out of all features.

All are called as ``part(text, image, taught, align, positive)``: the student's features of B pairs, tuples in the order
of its towers' ``names``; the teacher's, in the order of its ``names``; ``align`` (B, L, L'), how much of each of the
student's words is in each of the teacher's, rows that sum to 1 or, for what is no word of both, to 0; ``positive``
(B, B) as in ``contrastive``. They give a float32 scalar.
"""
import math

import mindspore as ms
from mindspore import Tensor, nn, ops

from hcma.losses.contrastive import info_nce
from hcma.losses.distillation import feature_distance, map_divergence, similarity_divergence
from hcma.models.attention import SHARPNESS
from hcma.models.layers import Linear, normalise
from hcma.models.levels import LevelScores, image_features, text_features
from hcma.models.scores import SentenceGlobal, word_patch_cosines
from hcma.models.teacher import MAP, widths
from hcma.models.windows import shared_areas


class Feature(nn.Cell):
    """The distance of one kind of feature, 'sentence', 'global', 'word' or 'patch', from the teacher's.

    The student's are projected where widths differ. Words are compared with the teacher's words on the same characters,
    patches after a change to the teacher's grid.
    """

    def __init__(self, name, model, grid, teacher, distance, init):
        super().__init__(auto_prefix=False)
        self.feature, self.distance = name, distance
        self.of_text = name in model.text_tower.names
        names = model.text_tower.names if self.of_text else model.image_tower.names
        self.place, self.taught = names.index(name), teacher.names.index(name)
        self.adapt = adapter(f'adapt_{name}', widths(model)[name], teacher.widths[name], init)
        self.to_grid = None
        if name == 'patch' and grid != teacher.grid:
            self.to_grid = Tensor(shared_areas(teacher.grid, grid))

    def construct(self, text, image, taught, align_BLL, positive_BB):
        student = text[self.place] if self.of_text else image[self.place]
        teacher = taught[self.taught]
        weight = ops.ones(teacher.shape[:-1], ms.float32)
        if self.feature == 'word':
            teacher, weight = normalise(ops.bmm(align_BLL, teacher)), aligned(align_BLL)
        if self.to_grid is not None:
            student = ops.matmul(self.to_grid, student)
        student = student.reshape(-1, student.shape[-1])
        student = student if self.adapt is None else self.adapt(student)
        return feature_distance(student, teacher.reshape(-1, teacher.shape[-1]), weight.reshape(-1), self.distance)


class Similarity(nn.Cell):
    """The divergence of one level's scores of all pairs from the teacher's."""

    def __init__(self, level, model, teacher, temperature):
        super().__init__(auto_prefix=False)
        self.model, self.temperature = model, temperature
        self.own, self.taught = model.levels.index(level), teacher.levels.index(level)
        self.scores = LevelScores(teacher.levels, kind=teacher.kind)
        self.scale = teacher.scales[level]
        self.texts = len(text_features(teacher.levels))
        self.images = self.texts + len(image_features(teacher.levels))

    def construct(self, text, image, taught, align_BLL, positive_BB):
        scale, _ = self.model.line(self.own)  # a bias changes no softmax
        student = self.model.scores.level(self.own, text, image) * scale
        teacher = self.scores.level(self.taught, taught[:self.texts], taught[self.texts:self.images]) * self.scale
        return similarity_divergence(student, teacher, self.temperature)


class WordPatchMap(nn.Cell):
    """The divergence of each word's attention to the patches of its image, the softmax of their cosines."""

    def __init__(self, model, grid, teacher):
        super().__init__(auto_prefix=False)
        self.word, self.patch = model.text_tower.names.index('word'), model.image_tower.names.index('patch')
        self.taught = teacher.names.index('word'), teacher.names.index('patch')
        self.to_grid = Tensor(shared_areas(grid, teacher.grid))

    def construct(self, text, image, taught, align_BLL, positive_BB):
        student = self._map(text[self.word], image[self.patch])
        teacher = self._map(taught[self.taught[0]], taught[self.taught[1]])
        return map_divergence(ops.matmul(student, self.to_grid), ops.bmm(align_BLL, teacher), aligned(align_BLL))

    def _map(self, word_BLE, patch_BPE):
        return ops.softmax(SHARPNESS * word_patch_cosines(word_BLE, patch_BPE), -1)


class FusionMap(nn.Cell):
    """The divergence of the attention of the fusion's last block, the mean of its heads, in matched pairs."""

    def __init__(self, model, grid, teacher):
        super().__init__(auto_prefix=False)
        self.fusion = model.fusion
        self.taught = teacher.names.index(MAP)
        self.to_grid = Tensor(shared_areas(grid, teacher.grid))

    def construct(self, text, image, taught, align_BLL, positive_BB):
        maps = self.fusion.attention(self.fusion.text_parts(text), self.fusion.image_parts(image))
        student = ops.matmul(ops.cast(maps[len(maps) - 1], ms.float32).mean(1), self.to_grid)
        return map_divergence(student, ops.bmm(align_BLL, taught[self.taught]), aligned(align_BLL))


class InteractiveContrast(nn.Cell):
    """The contrast of the student's sentences with the teacher's pictures, and the other way (Yang et al., 2024).

    At the teacher's temperature, through projections of their own where widths differ.
    """

    def __init__(self, model, teacher, init):
        super().__init__(auto_prefix=False)
        self.sentence, self.picture = (adapter(f'interact_{name}', widths(model)[name], teacher.widths[name], init)
                                       for name in ('sentence', 'global'))
        self.taught = teacher.names.index('sentence'), teacher.names.index('global')
        self.scale, self.cosines = teacher.scales['sentence_global'], SentenceGlobal()

    def construct(self, text, image, taught, align_BLL, positive_BB):
        sentence = normalise(text[0] if self.sentence is None else self.sentence(text[0]))
        picture = normalise(image[0] if self.picture is None else self.picture(image[0]))
        by_sentence = self.cosines(sentence, None, taught[self.taught[1]]) * self.scale
        by_picture = self.cosines(taught[self.taught[0]], None, picture) * self.scale
        return 0.5 * (info_nce(by_sentence, positive_BB) + info_nce(by_picture, positive_BB))


def aligned(align_BLL):
    """1 for the student's words that the teacher has, else 0, (B, L)."""
    return ops.cast(align_BLL.sum(-1) > 0.5, ms.float32)


def adapter(name, inputs, outputs, init):
    """A learned projection whose parameters are called after ``name``; None where both widths are the same."""
    if inputs == outputs:
        return None
    linear = Linear(inputs, outputs, init, bias=False, std=1 / math.sqrt(inputs))
    linear.update_parameters_name(f'{name}.')
    return linear
