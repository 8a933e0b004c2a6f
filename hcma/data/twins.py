"""The order of an epoch in which twins, pictures that are nearly equal, come in the same batch."""
import collections

import numpy as np


def twin_groups(twin_N):
    """The rows of each twin id, a list of arrays; a row without a twin is a group of its own."""
    by_twin = np.argsort(twin_N, kind='stable')
    starts = np.flatnonzero(np.diff(twin_N[by_twin])) + 1
    return np.split(by_twin, starts)


def twin_order(groups, steps, batch, generator):
    """The rows of ``steps`` batches of ``batch`` rows, (steps * batch,) int64, each row at most once.

    The groups are shuffled, and their rows among themselves; one larger than a batch is cut into batches first. Each
    batch takes the first waiting group, and then always the first that still fits. Only where none fits, because no
    small ones are left, is the first one cut: its rest waits like any other group. What is left after the last batch
    is not seen in this epoch. Within its batch a larger group comes before a smaller one, so that pairs start at even
    places, and devices that share the batch by an even number of rows never part them.
    """
    waiting = _queues(groups, batch, generator)
    return np.concatenate([_batch(waiting, batch) for _ in range(steps)] or [np.empty(0, np.int64)])


def _queues(groups, batch, generator):
    """{size: deque of (place in the shuffled order, rows)}: the first that fits is at the head of some queue."""
    queues, place = collections.defaultdict(collections.deque), 0
    for number in generator.permutation(len(groups)):
        rows = groups[number] if len(groups[number]) == 1 else generator.permutation(groups[number])
        for start in range(0, len(rows), batch):
            part = rows[start:start + batch]
            queues[len(part)].append((place, part))
            place += 1
    return queues


def _batch(waiting, batch):
    chosen, left = [], batch
    while left:
        rows = _first(waiting, left)
        chosen.append(rows)
        left -= len(rows)
    return np.concatenate(sorted(chosen, key=len, reverse=True))


def _first(waiting, left):
    """Take the first group of at most ``left`` rows out of the queues, or else so many rows of the first group."""
    heads = {size: queue[0][0] for size, queue in waiting.items() if queue}
    fitting = [size for size in heads if size <= left]
    size = min(fitting or heads, key=heads.get)
    place, rows = waiting[size].popleft()
    if size > left:
        waiting[size - left].appendleft((place, rows[left:]))
    return rows[:left]
