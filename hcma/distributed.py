"""Many devices: which rank this is, how many there are, and what they tell each other.

``start()`` joins the ranks that ``msrun`` started. Without it there is one rank, and nothing here does anything. Every
rank computes its share of the loss, and the shares add up to the loss of the whole batch, so gradients are summed and
never averaged.
"""
import os
import zlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, communication, nn, ops

from hcma.errors import InputError

_world = {'rank': 0, 'ranks': 1}
ID_BITS = 21  # three times that many are a 63-bit id, and each part is exact as int32


def rank():
    """The number of this process, from 0 up."""
    return _world['rank']


def ranks():
    """How many processes train together."""
    return _world['ranks']


def is_first():
    """Whether this is the process that writes files and talks to the user."""
    return rank() == 0


def is_launched():
    """Whether a launcher started this process as one of several."""
    return 'MS_ROLE' in os.environ or int(os.environ.get('RANK_SIZE', '1')) > 1


def start():
    """Join the other processes of the launch, if there is one; the device must be set. Raises ``InputError``."""
    if not is_launched() or ranks() > 1:
        return
    try:
        communication.init()
    except (RuntimeError, ValueError) as error:
        raise InputError(f'the ranks did not find each other ({_first_line(error)}); look at the other worker_*.log '
                         'files, and whether address and port of the launch are free and reachable') from None
    _world.update(rank=communication.get_rank(), ranks=communication.get_group_size())
    if ranks() > 1:
        ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=False)


def everyone(*values):
    """The numbers of all ranks, (ranks, values) float32, on the host; every rank must call it."""
    own = np.array([values], np.float32)
    return own if ranks() == 1 else ops.AllGather()(Tensor(own)).asnumpy()


def of_rank(owner, array):
    """The array that rank ``owner`` gives, on the host; every rank must call it, with one of that shape and type."""
    return ops.Broadcast(owner)((Tensor(array),))[0].asnumpy()


def any_rank(flag):
    """Whether ``flag`` is true on any rank; every rank must call it."""
    return bool(everyone(bool(flag)).any())


def require_same(**values):
    """Raise ``InputError`` on every rank where what they know by a name differs; every rank must call it."""
    if ranks() == 1:
        return
    for name, value in values.items():
        known = everyone(zlib.crc32(repr(value).encode()) & 0xffffff)[:, 0]  # 24 bits are exact in float32
        if (known != known[0]).any():
            other = int(np.flatnonzero(known != known[0])[0])
            raise InputError(f'rank {other} has another {name} than rank 0 ({str(value)[:60]!r} on rank {rank()}); '
                             'give all ranks the same arguments, and let them see the same files')


class Ranks(nn.Cell):
    """What ranks exchange inside a step: rows, b of each of ``count`` ranks, (b, ...) to (count * b, ...), and sums."""

    def __init__(self):
        super().__init__()
        self.rank, self.count = rank(), ranks()
        if self.count > 1:
            on_cpu = ms.get_context('device_target') == 'CPU'
            self.all_gather = _GatherOnCPU(self.rank, self.count) if on_cpu else ops.AllGather()
            self.splits_ids = on_cpu
            self.all_reduce = ops.AllReduce()

    def gather(self, x):
        """The rows of all ranks; their gradient is the sum of what all ranks' shares of the loss give."""
        return self.all_gather(x) if self.count > 1 else x

    def gather_ids(self, id_BG):
        """The rows of all ranks, int64 from 0 up. On CPU the gather keeps only 32 bits of a number, silently."""
        if self.count == 1:
            return id_BG
        if not self.splits_ids:
            return self.all_gather(id_BG)
        parts = ()
        for place in range(3):
            part = ops.bitwise_and(ops.bitwise_right_shift(id_BG, ID_BITS * place), 2 ** ID_BITS - 1)
            parts = parts + (ops.cast(part, ms.int32),)
        parts = ops.cast(self.all_gather(ops.stack(parts, 1)), ms.int64)
        return parts[:, 0] + parts[:, 1] * 2 ** ID_BITS + parts[:, 2] * 2 ** (2 * ID_BITS)

    def by_rank(self, x):
        """A row x (b,) of each rank, (count, b); without gradient."""
        return self.gather(ops.expand_dims(x, 0))

    def own(self, x):
        """This rank's rows of those of all."""
        if self.count == 1:
            return x
        return ops.gather(x.reshape((self.count, -1) + x.shape[1:]), Tensor(self.rank, ms.int32), 0)

    def total(self, x):
        """The sum over all ranks; without gradient."""
        return self.all_reduce(ops.stop_gradient(x)) if self.count > 1 else ops.stop_gradient(x)


class SumInOrder(nn.Cell):
    """Sums tensors over the ranks, the last first, as a backward pass makes them: in this order on every rank.

    For graphs that differ between ranks. MindSpore's own ``DistributedGradReducer`` leaves the order open.
    """

    def __init__(self):
        super().__init__()
        self.all_reduce = ops.AllReduce()

    def construct(self, tensors):
        summed = ()
        for tensor in tensors[::-1]:
            summed = (self.all_reduce(ops.depend(tensor, summed[0]) if summed else tensor),) + summed
        return summed


class _GatherOnCPU(nn.Cell):
    """``AllGather`` whose gradient needs no ReduceScatter, which MindSpore lacks on CPU."""

    def __init__(self, rank, count):
        super().__init__()
        self.rank, self.count = rank, count
        self.all_gather, self.all_reduce = ops.AllGather(), ops.AllReduce()

    def construct(self, x):
        return self.all_gather(x)

    def bprop(self, x, out, dout):
        total = self.all_reduce(dout).reshape((self.count,) + x.shape)
        return (ops.gather(total, Tensor(self.rank, ms.int32), 0),)


def _first_line(error):
    return str(error).strip().splitlines()[0].rstrip('.')
