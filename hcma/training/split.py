"""The training step in two graphs, for ranks whose updates differ."""
from mindspore import nn, ops

from hcma.training.step import HCMATrainStep


class SplitTrainStep(HCMATrainStep):
    """``HCMATrainStep`` in two graphs: gradients, and the update, ``construct(loss, parts, *gradients)``.

    MindSpore orders the collectives of a graph by what uses their results. Where each rank updates other weights, ranks
    would come to them in different orders, and exchange what does not belong together. Here the first graph is the
    same on all ranks, and the collectives of the second come one after the other.
    """

    def __init__(self, network, optimizer, loss_scale_manager, clip_norm):
        super().__init__(network, optimizer, loss_scale_manager, clip_norm)
        self.first = (_Gradients(network, self.loss_scale, self.weights),)  # a tuple: no part of this cell's graph

    def __call__(self, *columns):
        with self.clock.part('step'):
            loss, parts, gradients = self.first[0](*columns)
        with self.clock.part('update'):
            return self.compiled(loss, parts, *gradients)

    def construct(self, loss, parts, *gradients):
        return self.update(loss, parts, gradients, self._steering())


class _Gradients(nn.Cell):
    """A batch to this rank's share of the loss, its parts, and the gradients of the scaled loss."""

    def __init__(self, network, loss_scale, weights):
        super().__init__(auto_prefix=False)
        self.network, self.loss_scale = network, loss_scale
        self.value_and_grad = ops.value_and_grad(self._scaled_loss, None, weights, has_aux=True)

    def construct(self, *inputs):
        (_, loss, parts), gradients = self.value_and_grad(*inputs)
        return loss, parts, gradients

    def _scaled_loss(self, *inputs):
        loss, parts = self.network(*inputs)
        return loss * self.loss_scale, loss, parts
