"""A trained model as a teacher: its features, without gradient and without change."""
import mindspore as ms
import numpy as np
from mindspore import nn, ops

from hcma.models.levels import image_features, text_features

MAP = 'fusion_map'


class Teacher(nn.Cell):
    """The features of ``model`` that a student learns from, named by ``names``.

    ``construct`` takes the ``images`` inputs of its image tower and then those of its text tower. It gives sentence
    (B, E), for the levels that the model has word (B, L, E') with mask, phrase (B, Q, E') with mask, then global
    (B, E), patch (B, P, E'), region (B, R, E'), and for a fusion the map of its last block, the mean of the heads
    (B, L, P).

    The model is no part of the step that trains the student: the step takes its features as data. ``levels``, ``kind``
    of score, ``scales`` (1 / temperature by level), ``grid`` and ``widths`` (by feature) are what a student must know.
    """

    def __init__(self, model, grid, images=1):
        super().__init__(auto_prefix=False)
        self.model, self.images, self.grid = model, images, grid
        self.levels, self.kind = model.levels, model.scores.kind
        text, image = text_features(model.levels), image_features(model.levels)
        self.counts = len(text), len(image)
        self.names = text + image + ((MAP,) if model.fusion is not None else ())
        self.scales = dict(zip(model.levels, np.exp(model.log_scale.asnumpy().astype(np.float64)).tolist()))
        self.widths = widths(model)
        for parameter in model.get_parameters():
            parameter.requires_grad = False
        self.set_train(False)

    def construct(self, *inputs):
        model, (texts, images) = self.model, self.counts
        text, image = model.text_tower(*inputs[self.images:]), model.image_tower(*inputs[:self.images])
        features = text[:texts] + image[:images]
        if model.fusion is None:
            return features
        maps = model.fusion.attention(model.fusion.text_parts(text), model.fusion.image_parts(image))
        return features + (ops.cast(maps[len(maps) - 1], ms.float32).mean(1),)


def widths(model):
    """The widths of the features that the levels of ``model`` compare, {name: E}."""
    projections = {'sentence': model.text_tower.to_sentence, 'word': model.text_tower.to_word,
                   'global': model.image_tower.to_global, 'patch': model.image_tower.to_patch}
    return {name: projection.linear.weight.shape[0] for name, projection in projections.items()
            if projection is not None}
