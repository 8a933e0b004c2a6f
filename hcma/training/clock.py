"""Where the time of a step goes."""
import contextlib
import time

import mindspore as ms

DATA = 'data'  # waiting for the next batch
COMPUTING = ('step', 'images', 'texts', 'loss', 'update')  # a step in one graph, or the parts of a staged one


class Clock:
    """Adds up the seconds that the host spends in each part of a step, by name.

    On CPU a call returns when its result is there, so these are the seconds of the computation. Where the device works
    by itself they are those until its work is queued, unless ``waits``: then every part ends with its work.
    """

    def __init__(self):
        self.seconds = {}
        self.waits = False

    @contextlib.contextmanager
    def part(self, name):
        """Count the time inside the block for the part ``name``."""
        start = time.perf_counter()
        yield
        if self.waits:
            ms.runtime.synchronize()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def take(self):
        """The seconds by part since the last call."""
        seconds, self.seconds = self.seconds, {}
        return seconds


def shares(seconds, wall):
    """Of ``wall`` seconds the share of each part, of the host's own work, and of all that the device computes."""
    parts = {name: spent / wall for name, spent in seconds.items()}
    return {'utilisation': sum(parts.get(name, 0.0) for name in COMPUTING), **parts,
            'host': max(0.0, 1 - sum(parts.values()))}
