"""Measure the pairs of operations that docs/mindspore.md compares: ``tools/bench_ops.py [--rounds N]``.

Each row is a slow and a fast way to the same result, run in turn on this machine; medians in milliseconds.
"""
import argparse
import statistics
import time

from hcma import cli


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=cli.positive, default=15, help='default: %(default)s')
    rounds = parser.parse_args().rounds

    from hcma import backend
    from hcma.bench.pairs import pairs
    from hcma.columns import align
    backend.set_up('graph')
    rows = [['operation', 'slow', 'fast', 'fast / slow']]
    for name, slow, fast in pairs():
        before, after = measure(slow, fast, rounds)
        rows.append([name, f'{before:.2f}', f'{after:.2f}', f'{after / before:.2f}'])
    print(align(rows))


def measure(slow, fast, rounds):
    """The median milliseconds of two calls that take turns."""
    times = {slow: [], fast: []}
    for turn in range(rounds + 2):
        for call, taken in times.items():
            start = time.perf_counter()
            call()
            if turn >= 2:  # the first turns compile and warm up
                taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[slow]), statistics.median(times[fast])


if __name__ == '__main__':
    cli.run(main)
