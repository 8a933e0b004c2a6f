"""A student's whole loss: its own hierarchical one, and what its teacher adds."""
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.losses.contrastive import positives
from hcma.losses.taught import Feature, FusionMap, InteractiveContrast, Similarity, WordPatchMap


class StudentLoss(nn.Cell):
    """``own_weight * own loss + sum_k weight_k * loss_k``, the parts being those of ``hcma.losses.taught``.

    ``own`` is a ``HierarchicalLoss`` that takes the first ``columns`` inputs of ``construct``; after them come the
    features of ``teacher``, a ``Teacher``, in the order of its ``names``, and ``align`` (B, L, L') float32. These are
    data: nothing here holds the teacher. ``distill`` has the weights, ``grid`` is the student's. Called and split like
    ``own``, so it can be staged; after the terms of ``own`` follow the unweighted losses against the teacher.
    """

    def __init__(self, own, distill, teacher, columns, grid, init):
        super().__init__(auto_prefix=False)
        self.model, self.own = own.model, own  # the model first: its layers are known by names that begin with it
        self.columns, self.own_weight = columns, distill.own
        self.given = len(teacher.names) + 1
        parts = _parts(own.model, distill, teacher, grid, init)
        self.taught = nn.CellList([part for _, _, part in parts], auto_prefix=False)
        self.weight = Tensor(np.array([weight for _, weight, _ in parts], np.float32))
        self.part_names = own.part_names + tuple(f'loss_taught_{name}' for name, _, _ in parts)

    def construct(self, *columns):
        image, text, rest = self.split(columns)
        return self.of_features(self.model.text_tower(*text), self.model.image_tower(*image), *rest)

    def split(self, columns):
        """The inputs of the image tower, those of the text tower, and what ``of_features`` takes besides."""
        image, text, rest = self.own.split(columns[:self.columns])
        return image, text, rest + columns[self.columns:]

    def of_features(self, text, image, *rest):
        """The same of the towers' features, tuples; wrong texts, which the teacher never sees, follow the others."""
        known = len(rest) - self.given
        loss, parts = self.own.of_features(text, image, *rest[:known])
        taught, align_BLL, group_BG = rest[known:len(rest) - 1], rest[len(rest) - 1], rest[0]
        matched = ()
        for feature in text:
            matched = matched + (feature[:group_BG.shape[0]],)
        positive_BB = positives(group_BG, group_BG)
        losses = ()
        for part in self.taught:
            losses = losses + (part(matched, image, taught, align_BLL, positive_BB),)
        against = ops.stack(losses)
        return self.own_weight * loss + (against * self.weight).sum(), ops.concat((parts, against))


def _parts(model, distill, teacher, grid, init):
    """(name, weight, cell) of every loss that has a weight."""
    parts = [(name, weight, Feature(name, model, grid, teacher, distill.distance, init))
             for name, weight in distill.features.items() if weight]
    parts += [(f'similarity_{level}', weight, Similarity(level, model, teacher, distill.temperature))
              for level, weight in distill.similarity.items() if weight]
    maps = {'word_patch': WordPatchMap, 'fusion': FusionMap}
    parts += [(f'attention_{name}', weight, maps[name](model, grid, teacher))
              for name, weight in distill.attention.items() if weight]
    if distill.interactive:
        parts.append(('interactive', distill.interactive, InteractiveContrast(model, teacher, init)))
    return parts
