"""Where the time of a step goes."""
import contextlib
import time

import mindspore as ms

DATA = 'data'  # waiting for the next batch; all other parts compute


class Clock:
    """Adds up the seconds that the host spends in each part of a step, by name: ``seconds``.

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

    def since(self, before):
        """The seconds by part since ``seconds`` was the copy ``before``."""
        return {name: spent - before.get(name, 0.0) for name, spent in self.seconds.items()}


def shares(seconds, wall):
    """Of ``wall`` seconds the share in which the device computes, ``utilisation``, and that of each part.

    ``time_host`` is what is left: all that the host does between steps.
    """
    computing = sum(spent for name, spent in seconds.items() if name != DATA)
    parts = {'utilisation': computing, **{f'time_{name}': spent for name, spent in seconds.items()},
             'time_host': max(0.0, wall - sum(seconds.values()))}
    return {name: round(spent / wall, 4) for name, spent in parts.items()}
