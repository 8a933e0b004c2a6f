"""Several commands at once, each in a process on cores of its own."""
import contextlib
import os
import signal
import subprocess


def core_sets(wanted):
    """The usable cores dealt out into at most ``wanted`` sets, none of them empty."""
    cores = sorted(os.sched_getaffinity(0))
    sets = min(wanted, len(cores))
    return [cores[first::sets] for first in range(sets)]


def start(command, cores, log=None):
    """A process that runs ``command`` on ``cores``, its output in the file ``log`` or here."""
    environment = {**os.environ, 'OMP_NUM_THREADS': str(len(cores))}
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
