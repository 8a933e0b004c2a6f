"""The same training step for batches that do not fit at once: encoders part by part, the loss over the whole batch.

Features are made without gradient, meet in the loss, and their gradients go back through each encoder, which makes
the features of every part once more (as in GradCache, Gao et al., 2021). The host calls one compiled piece after the
other and waits for none.
"""
import mindspore as ms
from mindspore import ParameterTuple, Tensor, nn, ops

from hcma.training.step import HCMATrainStep

_add = ops.MultitypeFuncGraph('add')


@_add.register('Tensor', 'Tensor')
def _add_one(total, gradient):
    return total + ops.cast(gradient, ms.float32)


class StagedTrainStep(HCMATrainStep):
    """``HCMATrainStep`` of a ``HierarchicalLoss`` that encodes ``images`` pictures and ``texts`` texts at once.

    Called as that one is, with equal results but for rounding; wrong texts count as texts, and None means all. Only
    the update, ``construct(loss, parts, *gradients)``, is this cell's own graph: the gradients of all parts are summed,
    then checked and clipped once. ``encode_at_once`` changes the sizes between steps; no size is compiled twice.
    """

    def __init__(self, network, optimizer, loss_scale_manager, clip_norm, images=None, texts=None):
        super().__init__(network, optimizer, loss_scale_manager, clip_norm)
        self.image, self.text = _Tower(network.model.image_tower), _Tower(network.model.text_tower)
        self.meeting = _Meeting(network, self.loss_scale, self.image.parameters + self.text.parameters)
        self.encode_at_once(images, texts)

    def encode_at_once(self, images, texts):
        """Encode that many pictures and texts at once from the next step on; None means all."""
        self.image.size, self.text.size = images, texts

    def __call__(self, *columns):
        loss, parts, gradients = self._gradients(columns)
        with self.clock.part('update'):
            return self.compiled(loss, parts, *[gradients[parameter.name] for parameter in self.weights])

    def gradients(self, *columns):
        return self._gradients(columns)[2]

    def _gradients(self, columns):
        part = self.clock.part
        with part('texts'):
            image, text, rest = self.network.split(columns)
            texts = self.text.features(*text)
        with part('images'):
            images = self.image.features(*image)
        with part('loss'):
            loss, parts, pulls, gradients = self.meeting.meet(images, texts, rest)
        with part('texts'):
            gradients.update(self.text.gradients(pulls[len(images):], *text))
        with part('images'):
            gradients.update(self.image.gradients(pulls[:len(images)], *image))
        return loss, parts, gradients

    def construct(self, loss, parts, *gradients):
        return self.update(loss, parts, gradients, self._steering())

    @property
    def pieces(self):
        """Every cell that is compiled by itself."""
        return [*self.image.pieces, *self.text.pieces, self.meeting.piece, self]


class _Tower:
    """A tower on the host, ``size`` rows at once; no cell, so that the step's graph holds none of it.

    ``rows`` are those of the last batch.
    """

    def __init__(self, tower):
        self.tower = tower
        self.parameters = tower.trainable_params()
        self.size = self.rows = None
        self.by_size = {}

    @property
    def at_once(self):
        """How many rows of the last batch were encoded at once."""
        return min(self.size or self.rows, self.rows)

    @property
    def pieces(self):
        """The cells of all sizes."""
        return [piece for pair in self.by_size.values() for piece in pair if piece is not None]

    def features(self, *inputs):
        """The tower's features of all rows."""
        self.rows = len(inputs[0])
        forward, _ = self._pair()
        parts = [forward(start, *inputs) for start in self._starts()]
        if len(parts) == 1:
            return parts[0]
        return tuple(ops.concat(part)[:self.rows] for part in zip(*parts))

    def gradients(self, pulls, *inputs):
        """The gradients by name, where ``pulls`` are those of the features of all rows."""
        if not self.parameters:
            return {}
        _, backward = self._pair()
        total = [ops.zeros(parameter.shape, ms.float32) for parameter in self.parameters]
        for start in self._starts():
            total = backward(start, *pulls, *total, *inputs)
        return {parameter.name: gradient for parameter, gradient in zip(self.parameters, total)}

    def _pair(self):
        size = self.at_once
        if size not in self.by_size:
            backward = _Backward(self.tower, size, self.parameters) if self.parameters else None
            self.by_size[size] = _Forward(self.tower, size), backward
        return self.by_size[size]

    def _starts(self):
        return [Tensor(start, ms.int32) for start in range(0, self.rows, self.at_once)]


class _Forward(nn.Cell):
    """The features of the ``size`` rows from ``start`` on; what lies beyond the end is the last row again."""

    def __init__(self, tower, size):
        super().__init__(auto_prefix=False)
        self.tower = tower
        self.size = size
        self.range = ops.Range()

    def construct(self, start, *inputs):
        rows = inputs[0].shape[0]
        return self.tower(*_rows(inputs, ops.minimum(self.places(start), rows - 1)))

    def places(self, start):
        """Which rows these are; some may lie beyond the end, (size,) int32."""
        return ops.cast(start + self.range(0, self.size, 1), ms.int32)


class _Backward(_Forward):
    """Adds the gradients of a part's features to ``total``: start, all rows' pulls, total, inputs."""

    def __init__(self, tower, size, parameters):
        super().__init__(tower, size)
        self.features, self.count = len(tower.names), len(parameters)
        self.gradient = ops.grad(self._pulled, None, ParameterTuple(parameters))
        self.map = ops.HyperMap()

    def construct(self, start, *given):
        pulls, given = given[:self.features], given[self.features:]
        total, inputs = given[:self.count], given[self.count:]
        rows = inputs[0].shape[0]
        places = self.places(start)
        at, present = ops.minimum(places, rows - 1), ops.cast(places < rows, ms.float32)
        return self.map(_add, total, self.gradient(_rows(pulls, at), _rows(inputs, at), present))

    def _pulled(self, pulls, inputs, present):
        total = ops.zeros((), ms.float32)
        for feature, pull in zip(self.tower(*inputs), pulls):
            product = ops.cast(feature, ms.float32) * ops.cast(pull, ms.float32)
            total = total + (product.reshape(present.shape[0], -1).sum(1) * present).sum()
        return total


class _Meeting:
    """The loss of all features on the host; no cell, for the same reason."""

    def __init__(self, network, loss_scale, of_towers):
        towers = {parameter.name for parameter in of_towers}
        self.parameters = [p for p in network.trainable_params() if p.name not in towers]
        self.piece = _Loss(network, loss_scale, self.parameters)

    def meet(self, images, texts, rest):
        """The loss, its parts, the gradients of all features, and those of other parameters by name."""
        loss, parts, pulls, gradients = self.piece(*images, *texts, *rest)
        return loss, parts, pulls, {p.name: gradient for p, gradient in zip(self.parameters, gradients)}


class _Loss(nn.Cell):
    """The image tower's features, the text tower's, then what the loss takes besides, to loss and gradients."""

    def __init__(self, network, loss_scale, parameters):
        super().__init__(auto_prefix=False)
        self.network, self.loss_scale = network, loss_scale
        self.images = len(network.model.image_tower.names)
        self.count = self.images + len(network.model.text_tower.names)
        self.has_parameters = bool(parameters)
        self.value_and_grad = ops.value_and_grad(self._scaled_loss, tuple(range(self.count)),
                                                 ParameterTuple(parameters) if parameters else None, has_aux=True)

    def construct(self, *inputs):
        (_, loss, parts), gradients = self.value_and_grad(*inputs)
        if self.has_parameters:
            return loss, parts, gradients[0], gradients[1]
        return loss, parts, gradients, ()

    def _scaled_loss(self, *inputs):
        loss, parts = self.network.of_features(inputs[self.images:self.count], inputs[:self.images],
                                               *inputs[self.count:])
        return loss * self.loss_scale, loss, parts


def _rows(columns, at):
    """The rows ``at`` of every column."""
    return tuple([ops.gather(column, at, 0) for column in columns])
