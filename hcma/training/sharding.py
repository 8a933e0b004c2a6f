"""Moments spread over the ranks: who owns which parameter, and how all moments come together in a checkpoint."""
import numpy as np

from hcma import distributed


def owners(parameters, ranks):
    """The rank that owns each of ``parameters``, in their order: a function of names and sizes alone.

    The largest is given out first, always to the rank that has least.
    """
    load, owner = [0] * ranks, {}
    for parameter in sorted(parameters, key=lambda one: (-one.size, one.name)):
        owner[parameter.name] = load.index(min(load))
        load[owner[parameter.name]] += parameter.size
    return [owner[parameter.name] for parameter in parameters]


def names_elsewhere(optimizer):
    """The names of the moments that other ranks hold."""
    own = {moment.name for moment in optimizer.moment1 + optimizer.moment2}
    return {name for name, *_ in _moments(optimizer)} - own


def moments_of_all(optimizer):
    """All moments on the host, {name: float32 array}, on the first rank, and none on others; every rank must call it.

    One after the other is sent, so a device never holds a second one of another's.
    """
    own = {moment.name: moment for moment in optimizer.moment1 + optimizer.moment2}
    found = {}
    for name, owner, shape in _moments(optimizer):
        array = own[name].asnumpy() if name in own else np.zeros(shape, np.float32)
        array = distributed.of_rank(owner, array)
        if distributed.is_first():
            found[name] = array
    return found


def _moments(optimizer):
    """Name, owner and shape of every moment, in the order in which ranks send them."""
    return [(f'{moment}.{parameter.name}', owner, parameter.shape) for moment in ('moment1', 'moment2')
            for parameter, owner in zip(optimizer.parameters, optimizer.owners)]
