"""One training step, compiled as one graph: loss, gradients, overflow check, clip, AdamW, temperatures, loss scale."""
import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from hcma.distributed import Ranks, SumInOrder
from hcma.training.adam import square_sum
from hcma.training.clock import Clock

# The squares of scaled gradients up to ten million are still finite. No type of 16 bits can use as much.
MAX_LOSS_SCALE = 2.0 ** 40

_to_float32 = ops.MultitypeFuncGraph('to_float32')


@_to_float32.register('Tensor')
def _to_float32_one(gradient):
    return ops.cast(gradient, ms.float32)


class HCMATrainStep(nn.TrainOneStepCell):
    """``construct(*inputs of the network)`` trains on one batch and returns the loss and a row of ``metric_names``.

    ``network`` gives (loss, parts): what else there is to log, named by its ``part_names``. Its ``model`` may have a
    ``log_scale`` of temperatures. Gradients of the scaled loss are divided by the scale, checked, and
    clipped once by their global norm. A gradient that is not finite skips weights, moments, schedule and step count
    alike; only the loss scale is halved. Everything stays on the device: the host may read the row when it likes.

    With many ranks each gives its part of the batch and has its share of the loss. Gradients are summed over the ranks
    once, before all else, so every rank sees the same overflow, clips alike and makes the same update.
    """

    def __init__(self, network, optimizer, loss_scale_manager, clip_norm):
        super().__init__(network, optimizer)
        self.has_temperatures = hasattr(network.model, 'log_scale')
        self.learns_weights = getattr(network.model, 'log_variance', None) is not None
        self.clip_norm = clip_norm
        self.ranks = Ranks()
        self.in_order = bool(optimizer.owners)  # gradients, then losses, then weights: ranks must not differ in that
        if self.in_order:
            self.grad_reducer = SumInOrder()
        self.loss_scale = Parameter(Tensor(loss_scale_manager.get_loss_scale(), ms.float32), name='loss_scale',
                                    requires_grad=False)
        self.update_loss_scale = loss_scale_manager.get_update_cell()
        self.map, self.square_sum = ops.HyperMap(), square_sum()
        self.value_and_grad = ops.value_and_grad(self._scaled_loss, None, self.weights, has_aux=True)
        self.clock = Clock()

    def __call__(self, *columns):
        with self.clock.part('step'):
            return self.compiled(*columns)

    def compiled(self, *inputs):
        """Run this cell's own graph."""
        return super().__call__(*inputs)

    @property
    def metric_names(self):
        """What the entries of the returned row mean."""
        scales = [f'scale_{level}' for level in self.network.model.levels] if self.has_temperatures else []
        weights = [f'weight_{term}' for term in self.network.model.terms] if self.learns_weights else []
        return ['loss', *self.network.part_names, *scales, *weights, 'grad_norm', 'loss_scale', 'overflow', 'lr']

    def gradients(self, *inputs):
        """The gradients of this rank's share of the scaled loss, {name: gradient}, of a step that is not taken."""
        return dict(zip([parameter.name for parameter in self.weights], self.value_and_grad(*inputs)[1]))

    def construct(self, *inputs):
        steering = self._steering()
        (_, loss, parts), gradients = self.value_and_grad(*inputs)
        return self.update(loss, parts, gradients, steering)

    def update(self, loss, parts, gradients, steering):
        """What follows from the gradients of the scaled loss; returns loss and metrics."""
        lr = self.optimizer.learning_rate()
        scale = self.loss_scale + 0.0  # a copy: the parameter itself changes below
        gradients = self.map(_to_float32, self.grad_reducer(gradients))
        losses = ops.concat((loss.reshape(1), parts))
        losses = self.ranks.total(ops.depend(losses, gradients) if self.in_order else losses)
        norm = ops.sqrt(self.square_sum(gradients)) / scale
        finite = ops.isfinite(ops.depend(norm, losses) if self.in_order else norm)
        if finite:
            factor = ops.minimum(self.clip_norm / (norm + 1e-6), Tensor(1.0, ms.float32)) / scale
            self.optimizer(gradients, factor)
            if self.has_temperatures:
                self.network.model.clamp_scales()
        overflow = ops.logical_not(finite)
        self.update_loss_scale(self.loss_scale, overflow)
        ops.assign(self.loss_scale, ops.minimum(self.loss_scale, MAX_LOSS_SCALE))
        row = (losses, *steering, norm.reshape(1), scale.reshape(1),
               ops.cast(overflow, ms.float32).reshape(1), lr.reshape(1))
        return losses[0], ops.concat(row)

    def _steering(self):
        """1 / temperature of every level and, where they are learned, the weight of every term, before the update."""
        model = self.network.model
        scales = (ops.exp(model.log_scale + 0.0),) if self.has_temperatures else ()
        return scales + ((ops.exp(-model.log_variance),) if self.learns_weights else ())

    def _scaled_loss(self, *inputs):
        loss, parts = self.network(*inputs)
        return loss * self.loss_scale, loss, parts
