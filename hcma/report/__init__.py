"""The report of a run: one HTML page that opens from disk and needs nothing else.

``write_report(run_dir)`` reads what training and evaluation left in a run directory and writes ``report.html``
there. Every part is optional; a missing one is replaced by the command that makes it. Neither MindSpore nor the model
is needed.
"""
import os
from pathlib import Path

from hcma.report.page import page
from hcma.report.run_files import read_run


def write_report(run_dir):
    """Write ``run_dir/report.html`` and return its path.

    The same files give the same bytes. Raises ``InputError`` when ``run_dir`` is not a folder or one of its files
    cannot be read as what its name says. An older report stays whole until the new one is.
    """
    run = read_run(run_dir)
    target = Path(run_dir) / 'report.html'
    unfinished = target.with_name('report.html.part')
    # A caption may hold half of a surrogate pair, which has no UTF-8 form: it becomes a question mark.
    unfinished.write_bytes(page(run).encode('utf-8', errors='replace'))
    os.replace(unfinished, target)
    return target
