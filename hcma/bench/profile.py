"""Where the time of a compiled step goes, operation by operation, by MindSpore's own profiler."""
import collections
import csv
import tempfile
from pathlib import Path

from mindspore.profiler import ProfilerActivity, profile, tensorboard_trace_handler


def by_operation(take, steps):
    """[(operation, calls a step, milliseconds a step)] of ``steps`` calls of ``take``, the most expensive first."""
    milliseconds, calls = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        profiler = profile(activities=[ProfilerActivity.CPU], on_trace_ready=tensorboard_trace_handler(folder))
        profiler.start()
        for _ in range(steps):
            take()
        profiler.stop()
        (path,) = Path(folder).rglob('cpu_op_detail_info_*.csv')
        for row in csv.DictReader(path.read_text().splitlines()):
            name = row['op_type']
            milliseconds[name] += float(row['op_total_time(ms)']) / steps
            calls[name] += int(row['op_occurrences']) / steps
    return [(name, calls[name], spent) for name, spent in milliseconds.most_common()]
