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
    then checked and clipped once.
    """

    def __init__(self, network, optimizer, loss_scale_manager, clip_norm, images=None, texts=None):
        super().__init__(network, optimizer, loss_scale_manager, clip_norm)
        self.image = _Tower(network.model.image_tower, images)
        self.text = _Tower(network.model.text_tower, texts)
        self.meeting = _Meeting(network, self.loss_scale, self.image.parameters + self.text.parameters)

    def __call__(self, image, ids, length, group, negative_ids=None, negative_length=None):
        texts, rest = (ids, length), (group,)
        if negative_ids is not None:
            texts, rest = (ids, length, negative_ids, negative_length), (group, negative_length)
        images = self.image.features(image)
        loss, parts, pulls, gradients = self.meeting.meet(images, self.text.features(*texts), rest)
        gradients.update(self.image.gradients(pulls[:len(images)], image))
        gradients.update(self.text.gradients(pulls[len(images):], *texts))
        return super().__call__(loss, parts, *[gradients[parameter.name] for parameter in self.weights])

    def construct(self, loss, parts, *gradients):
        return self.update(loss, parts, gradients, self._steering())

    @property
    def pieces(self):
        """Every cell that is compiled by itself."""
        towers = [piece for tower in (self.image, self.text) for piece in (tower.forward, tower.backward)]
        return [piece for piece in (*towers, self.meeting.piece, self) if piece is not None]


class _Tower:
    """A tower on the host, part by part; no cell, so that the step's graph holds none of it."""

    def __init__(self, tower, size):
        self.size = size
        self.parameters = tower.trainable_params()
        self.forward = _Forward(tower, size)
        self.backward = _Backward(tower, size, self.parameters) if self.parameters else None

    def features(self, *inputs):
        """A tuple of features for each part."""
        return [self.forward(start, *inputs) for start in self._starts(inputs)]

    def gradients(self, pulls, *inputs):
        """The summed gradients by name, where ``pulls`` are those of the features of each part."""
        if self.backward is None:
            return {}
        total = [ops.zeros(parameter.shape, ms.float32) for parameter in self.parameters]
        for start, pull in zip(self._starts(inputs), pulls):
            total = self.backward(start, *pull, *total, *inputs)
        return {parameter.name: gradient for parameter, gradient in zip(self.parameters, total)}

    def _starts(self, inputs):
        rows = _rows(inputs)
        return [Tensor(start, ms.int32) for start in range(0, rows, self.size or rows)]


class _Forward(nn.Cell):
    """The features of the ``size`` rows from ``start`` on; what lies beyond the end is the last row again."""

    def __init__(self, tower, size):
        super().__init__(auto_prefix=False)
        self.tower = tower
        self.size = size
        self.range = ops.Range()

    def construct(self, start, *inputs):
        return self.part(start, inputs)

    def part(self, start, inputs):
        if len(inputs) == 4:  # wrong texts follow the others
            inputs = (ops.concat((inputs[0], inputs[2])), ops.concat((inputs[1], inputs[3])))
        rows = inputs[0].shape[0]
        at = start + self.range(0, rows if self.size is None else self.size, 1)
        at = ops.minimum(ops.cast(at, ms.int32), Tensor(rows - 1, ms.int32))
        return self.tower(*[ops.gather(x, at, 0) for x in inputs])


class _Backward(_Forward):
    """Adds the gradients of a part's features, pulled with ``pulls``, to ``total``: start, pulls, total, inputs."""

    def __init__(self, tower, size, parameters):
        super().__init__(tower, size)
        self.features, self.count = len(tower.names), len(parameters)
        self.gradient = ops.grad(self._pulled, None, ParameterTuple(parameters))
        self.map = ops.HyperMap()

    def construct(self, start, *given):
        pulls, given = given[:self.features], given[self.features:]
        total, inputs = given[:self.count], given[self.count:]
        return self.map(_add, total, self.gradient(start, pulls, inputs))

    def _pulled(self, start, pulls, inputs):
        total = ops.zeros((), ms.float32)
        for feature, pull in zip(self.part(start, inputs), pulls):
            total = total + (ops.cast(feature, ms.float32) * ops.cast(pull, ms.float32)).sum()
        return total


class _Meeting:
    """The loss of all features on the host; no cell, for the same reason."""

    def __init__(self, network, loss_scale, of_towers):
        towers = {parameter.name for parameter in of_towers}
        self.parameters = [p for p in network.trainable_params() if p.name not in towers]
        self.network, self.loss_scale = network, loss_scale
        self.piece = None

    def meet(self, images, texts, rest):
        """The loss, its parts, the gradients of every part's features, and those of other parameters by name."""
        if self.piece is None:
            self.piece = _Loss(self.network, self.loss_scale, self.parameters, len(images), len(texts))
        flat = [feature for part in (*images, *texts) for feature in part]
        loss, parts, pulls, gradients = self.piece(*flat, *rest)
        pulls = iter(pulls)
        pulls = [tuple(next(pulls) for _ in part) for part in (*images, *texts)]
        return loss, parts, pulls, {p.name: gradient for p, gradient in zip(self.parameters, gradients)}


class _Loss(nn.Cell):
    """The features of all parts, one after the other, then group (and negative_length), to loss and gradients."""

    def __init__(self, network, loss_scale, parameters, images, texts):
        super().__init__(auto_prefix=False)
        self.network, self.loss_scale = network, loss_scale
        self.images, self.texts = images, texts
        self.image_features = len(network.model.image_tower.names)
        self.text_features = len(network.model.text_tower.names)
        self.count = images * self.image_features + texts * self.text_features
        self.has_parameters = bool(parameters)
        self.value_and_grad = ops.value_and_grad(self._scaled_loss, tuple(range(self.count)),
                                                 ParameterTuple(parameters) if parameters else None, has_aux=True)

    def construct(self, *inputs):
        (_, loss, parts), gradients = self.value_and_grad(*inputs)
        if self.has_parameters:
            return loss, parts, gradients[0], gradients[1]
        return loss, parts, gradients, ()

    def _scaled_loss(self, *inputs):
        rest, first = inputs[self.count:], self.images * self.image_features
        batch = rest[0].shape[0]
        image = _joined(inputs[:first], self.image_features, batch)
        text = _joined(inputs[first:self.count], self.text_features, batch * len(rest))
        loss, parts = self.network.of_features(text, image, *rest)
        return loss * self.loss_scale, loss, parts


def _joined(flat, count, rows):
    """The ``count`` features of all parts, without what filled up the last part."""
    joined = ()
    for place in range(count):
        joined = joined + (ops.concat(flat[place::count])[:rows],)
    return joined


def _rows(inputs):
    """How many rows there are: four inputs are two kinds of texts."""
    return inputs[0].shape[0] * (2 if len(inputs) == 4 else 1)
