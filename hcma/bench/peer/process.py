"""One measurement, in a process of its own so that its peak memory and its first step are its own.

``python -m hcma.bench.peer.process LAUNCHED FOLDER SIDE JOB [ARGUMENT]`` prints JSON. LAUNCHED is when the process was
started, FOLDER holds what ``inputs`` wrote, SIDE is 'ours' or a peer, and JOB a function of ``ours`` or ``theirs``.
"""
import importlib
import json
import os
import subprocess
import sys
import time


def run(folder, side, job, threads):
    """The numbers that a fresh process prints; ``job`` is a tuple, a name and its arguments."""
    environment = {**os.environ, 'OMP_NUM_THREADS': str(threads)}
    done = subprocess.run([sys.executable, '-m', __name__, str(time.time()), str(folder), side, *map(str, job)],
                          capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f'{side}, {" ".join(map(str, job))}: {done.stderr}')
    return json.loads(done.stdout.splitlines()[-1])


def _main():
    launched, folder, side, job, *arguments = sys.argv[1:]
    module = importlib.import_module(f'hcma.bench.peer.{"ours" if side == "ours" else "theirs"}')
    workplace = module.Workplace(folder, side, float(launched), int(os.environ['OMP_NUM_THREADS']))
    print(json.dumps(getattr(module, job)(workplace, *arguments)))


if __name__ == '__main__':
    _main()
