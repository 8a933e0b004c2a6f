"""AdamW with bias correction, and the warm-up and cosine schedule, both computed inside the compiled step."""
import math
import re
from concurrent.futures import ThreadPoolExecutor

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore.common.initializer import initializer
from mindspore.nn.learning_rate_schedule import LearningRateSchedule

from hcma import distributed
from hcma.training.adam import adam
from hcma.training.sharding import owners

# An encoder's blocks by number, and what comes before them.
_ENCODER = re.compile(r'(.*encoder)\.(?:blocks\.(\d+)|embedding|position|class_embedding|stem|input_norm)(?:\.|$)')


class WarmupCosine(LearningRateSchedule):
    """From 0 to ``peak`` over ``warmup`` steps, then along half a cosine to ``peak * final`` at step ``total``."""

    def __init__(self, peak, total, warmup, final):
        super().__init__()
        self.peak, self.final = peak, final
        self.warmup, self.rise, self.rest = warmup, max(warmup, 1), max(total - warmup, 1)

    def construct(self, global_step):
        step = ops.cast(global_step, ms.float32)
        rising = ops.minimum((step + 1) / self.rise, Tensor(1.0, ms.float32))
        done = ops.clamp((step - self.warmup) / self.rest, 0.0, 1.0)
        falling = self.final + (1 - self.final) * 0.5 * (1 + ops.cos(math.pi * done))
        return self.peak * rising * falling


class AdamW(nn.Cell):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019) over float32 parameters.

    MindSpore's ``nn.AdamWeightDecay`` has no bias correction and ``experimental.optim.AdamW`` is slow, so this drives
    the former's fused operation with a rate, an epsilon and a decay that make its update the paper's.
    ``lr_factor`` multiplies the schedule's rate; the host may change it between steps. ``rates`` are the parameters'
    shares of the learning rate, 1 where they are left out.
    ``construct(gradients, factor)`` updates everything in place by gradients times a float32 scalar, and counts the
    step, which drives the schedule too.

    With ``owners``, a rank for each parameter, a rank has moments only of those that it owns and updates only these;
    then it sends them to the others. Without, every rank updates all.
    """

    def __init__(self, parameters, decays, schedule, betas, eps, rates=None, owners=()):
        super().__init__(auto_prefix=False)
        self.parameters, self.owners = ParameterTuple(parameters), tuple(owners)
        self.own = tuple(at for at in range(len(parameters)) if not owners or owners[at] == distributed.rank())
        self.updated = ParameterTuple([parameters[at] for at in self.own])
        self.moment1, self.moment2 = (_zeros_like(self.updated, name) for name in ('moment1', 'moment2'))
        rates = rates or [1.0] * len(parameters)
        self.decays, self.rates = ([numbers[at] for at in self.own] for numbers in (decays, rates))
        self.schedule = schedule
        self.lr_factor = Parameter(Tensor(1.0, ms.float32), name='lr_factor', requires_grad=False)
        self.step = Parameter(Tensor(0, ms.int32), name='step', requires_grad=False)
        self.beta1, self.beta2 = (Tensor(beta, ms.float32) for beta in betas)
        self.log_betas = tuple(float(np.log(max(beta, 1e-30))) for beta in betas)
        self.eps = eps
        self.adam = adam(self.rates, self.decays)
        self.senders = tuple(ops.Broadcast(rank) for rank in range(distributed.ranks())) if owners else ()

    def learning_rate(self):
        """The rate that the next update will use, a float32 scalar."""
        return self.schedule(self.step) * self.lr_factor

    def construct(self, gradients, factor):
        count = ops.cast(self.step + 1, ms.float32)
        # -expm1 keeps the digits of 1 - beta**t that float32 loses at the first steps
        grown1, grown2 = -ops.expm1(count * self.log_betas[0]), ops.sqrt(-ops.expm1(count * self.log_betas[1]))
        lr, shrink = self.learning_rate() * grown2 / grown1, grown1 / grown2
        if self.owners:  # picking takes long to compile
            gradients = tuple([gradients[at] for at in self.own])
        done = count
        if self.own:
            done = self.adam(self.updated, self.moment1, self.moment2, gradients,
                             (factor, lr, self.beta1, self.beta2, self.eps * grown2, shrink))
        if self.owners:
            done = self.send(done)
        return ops.depend(ops.assign(self.step, self.step + 1), done)

    def send(self, done):
        """Every owner's parameters to all ranks, after ``done``.

        One after the other, for ranks that send in different orders wait for ever; and each by itself, for of several
        at once MindSpore's PYNATIVE mode sends the first alone (2.10, on CPU).
        """
        for at in range(len(self.owners)):
            parameter = self.parameters[at]
            sent = self.senders[self.owners[at]]((ops.depend(parameter, done),))
            done = ops.depend(done, ops.assign(parameter, sent[0]))
        return done


def _zeros_like(parameters, prefix):
    """Float32 parameters of zeros that are not trained, shaped and named like ``parameters``.

    They are written here: memory that is read first faults twice a page, and stops all cores each time.
    """
    zeros = ParameterTuple([Parameter(initializer('zeros', parameter.shape, ms.float32), f'{prefix}.{parameter.name}',
                                      requires_grad=False) for parameter in parameters])
    arrays = [parameter.init_data().asnumpy() for parameter in zeros]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda array: array.fill(0), arrays))
    return zeros


def build_optimizer(network, train, total_steps, peak=None):
    """AdamW for what ``network`` trains, as the recipe's ``train`` section says; ``peak`` replaces its ``lr``."""
    parameters = network.trainable_params()
    decays = [train.weight_decay if decays_weight(p, train.decay_embeddings) else 0.0 for p in parameters]
    schedule = WarmupCosine(peak or train.lr, total_steps, round(train.warmup * total_steps), train.final_lr)
    rates = layer_rates([parameter.name for parameter in parameters], train.layer_decay)
    ranks = distributed.ranks()
    shared = owners(parameters, ranks) if train.shard_optimizer and ranks > 1 else ()
    return AdamW(parameters, decays, schedule, train.betas, train.eps, rates, shared)


def layer_rates(names, decay):
    """For each parameter of ``names`` its share of the learning rate: ``decay`` once for every block above it, and one.

    Encoders are counted each for itself, embeddings as a layer below the first block. What comes after the blocks has
    all of the rate (layer-wise decay, as in BEiT, Bao et al., 2022).
    """
    found = [_ENCODER.match(name) for name in names]
    depth = {}
    for match in found:
        if match and match.group(2):
            depth[match.group(1)] = max(depth.get(match.group(1), 0), int(match.group(2)) + 1)
    return [1.0 if match is None else
            decay ** (depth.get(match.group(1), 0) + 1 - (int(match.group(2)) + 1 if match.group(2) else 0))
            for match in found]


def decays_weight(parameter, embeddings=False):
    """Weight decay is for matrices: not for norms, biases, directions, temperatures, nor embeddings unless asked."""
    if parameter.name.endswith('directions.table'):
        return False
    is_embedding = parameter.name.rsplit('.', 1)[-1] in ('embedding', 'position', 'class_embedding')
    return parameter.ndim >= 2 and (embeddings or not is_embedding)
