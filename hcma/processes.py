"""Several commands at once, each in a process on cores of its own."""
import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from pathlib import Path

from hcma.errors import InputError


def core_sets(wanted):
    """The usable cores dealt out into at most ``wanted`` sets, none of them empty."""
    cores = sorted(os.sched_getaffinity(0))
    sets = min(wanted, len(cores))
    return [cores[first::sets] for first in range(sets)]


def start(command, cores, log=None):
    """A process that runs ``command`` on ``cores``, its output in the file ``log`` (its folder is made) or here."""
    environment = {**os.environ, 'OMP_NUM_THREADS': str(len(cores))}
    if log is not None:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
    output = None if log is None else open(log, 'w', encoding='utf-8')
    return subprocess.Popen(command, env=environment, stdout=output, stderr=output,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores))


@contextlib.contextmanager
def stopped_together(processes):
    """Where this process is interrupted (Ctrl-C, SIGTERM), so are those in the list ``processes``, and waited for."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or it would end this process alone
    try:
        yield
    except KeyboardInterrupt:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        raise


def run_all(jobs):
    """Run ``jobs`` (name, command, log file), as many at a time as there are cores, each on one of its own.

    Raises ``InputError`` for the first that fails, and leaves the others to end.
    """
    waiting, free, running = deque(jobs), core_sets(len(jobs)), {}
    with stopped_together(running):
        while waiting or running:
            while waiting and free:
                (name, command, log), cores = waiting.popleft(), free.pop()
                print(f'== {name} ({len(waiting)} wait)', flush=True)
                running[start(command, cores, log)] = name, log, cores
            for process in [process for process in running if process.poll() is not None]:
                name, log, cores = running.pop(process)
                free.append(cores)
                if process.returncode:
                    raise InputError(f'{name} ended with exit code {process.returncode}; see {log}')
            time.sleep(0.5)
