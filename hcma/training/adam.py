"""The two passes over all weights, on CPU a compiled kernel each: the squares of the gradients, and Adam's update."""
import mindspore as ms
from mindspore import Tensor, nn, ops

from hcma import backend
from hcma.kernels import cells as compiled

_square_sum = ops.MultitypeFuncGraph('square_sum')
_adam = ops.MultitypeFuncGraph('adam')


@_square_sum.register('Function', 'Tensor')
def _square_sum_one(product, gradient):
    """A product of one row with itself, which holds nothing besides."""
    row = gradient.reshape(1, -1)
    return product(row, row).reshape(())


@_adam.register('Function', 'Tensor', 'Tensor', 'Tensor', 'Tensor', 'Tensor', 'Tensor', 'Tensor', 'Tensor', 'Tensor',
                'Tensor', 'Tensor', 'Tensor')
def _adam_one(adam, factor, lr, beta1, beta2, eps, shrink, rate, decay, parameter, moment1, moment2, gradient):
    """One fused update of parameter and moments in place."""
    done = adam(parameter, moment1, moment2, lr * rate, beta1, beta2, eps, decay * shrink, gradient * factor)
    return ops.depend(factor, done)


class SquareSum(nn.Cell):
    """The sum of the squares of all ``gradients``, a tuple of float32 Tensors; a float32 scalar."""

    def __init__(self):
        super().__init__()
        self.product, self.map = ops.MatMul(transpose_b=True), ops.HyperMap()

    def construct(self, gradients):
        return ops.addn(self.map(ops.partial(_square_sum, self.product), gradients))


class Adam(nn.Cell):
    """Updates tuples of parameters and their moments in place, with MindSpore's ``AdamWeightDecay``.

    ``rates`` and ``decays`` are numbers for each parameter: its share of the learning rate, and its weight decay.
    ``numbers`` are float32 scalars: a factor of the gradients, the learning rate, both betas, epsilon, and a factor of
    the decays. What ``construct`` gives is there when all is done.
    """

    def __init__(self, rates, decays):
        super().__init__()
        self.rates = tuple(Tensor(rate, ms.float32) for rate in rates)
        self.decays = tuple(Tensor(decay, ms.float32) for decay in decays)
        self.adam, self.map = ops.AdamWeightDecay(), ops.HyperMap()

    def construct(self, parameters, moment1, moment2, gradients, numbers):
        factor, lr, beta1, beta2, eps, shrink = numbers
        update = ops.partial(_adam, self.adam, factor, lr, beta1, beta2, eps, shrink)
        return self.map(update, self.rates, self.decays, parameters, moment1, moment2, gradients)


def square_sum():
    """A cell ``SquareSum``."""
    return compiled.SquareSum() if backend.compiles_kernels() else SquareSum()


def adam(rates, decays):
    """A cell ``Adam``."""
    return compiled.Adam(rates, decays) if backend.compiles_kernels() else Adam(rates, decays)
