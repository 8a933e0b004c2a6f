"""A job of several ranks under MindSpore's msrun: started, shown, stopped together, and what went wrong said."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import psutil

from hcma.errors import InputError

FAILED = re.compile(r'Worker process (\d+) exit with exception\. Error code: (-?\d+)')
# MindSpore's threads end after its log levels are gone, and then say so whatever GLOG_v is.
INFO = re.compile(rb'^\[INFO\] .*\n?', re.MULTILINE)
LAST_LINES = 20
STOPPED = 130  # the exit code of a run that was asked to stop


class Job:
    """``run()`` starts ``script`` (a path and its arguments) once for each rank and returns the exit code of it all.

    ``msrun`` are its options; ``logs`` is the folder of the logs, ``local`` how many ranks this machine has.
    """

    def __init__(self, msrun, script, logs, local):
        self.logs, self.local = logs, local
        self.ranks, self.asked = {}, False
        self.command = [sys.executable, '-m', 'mindspore.parallel.cluster.run', *msrun, '--join=True',
                        f'--log_dir={logs}', f'--tail_worker_log={local}', *script]  # that tails none

    def run(self):
        """Start all, and follow them to the end."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f'{self.logs}: cannot be written ({error.strerror}); choose another --out') from None
        for old in self.logs.glob('*.log'):
            old.unlink()
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get('PATH', '')])
        with open(self.logs / 'msrun.log', 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True,
                                            env={**os.environ, 'PATH': path})
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._follow()
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._outcome()

    def _follow(self):
        """Show the first log until the job is over, or a rank has failed: then msrun has ended the others."""
        shown = 0
        while True:
            over = self.process.poll() is not None or self._failure()
            self._find_ranks()
            first = min(self.logs.glob('worker_*.log'), default=None, key=_number)
            if first is not None:
                with open(first, 'rb') as file:
                    file.seek(shown)
                    text = file.read()
                text = text if over else _without_begun(text)
                shown += len(text)
                sys.stderr.write(INFO.sub(b'', text).decode('utf-8', 'replace'))
                sys.stderr.flush()
            if over:
                return
            time.sleep(0.3)

    def _find_ranks(self):
        """Note which process is which rank, {process id: rank}."""
        if len(self.ranks) < self.local:
            for process in _children(self.process.pid):
                environment = _environment(process)
                if environment.get('MS_ROLE') == 'MS_WORKER' and 'RANK_ID' in environment:
                    self.ranks[process.pid] = int(environment['RANK_ID'])

    def _stop(self, number, frame):
        """Ask the ranks to stop, which they do after a common step; the second time end them."""
        if self.asked:
            self._end()
            return
        self.asked = True
        self._find_ranks()
        for pid in self.ranks:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass

    def _end(self):
        """Leave no process behind."""
        for process in [*_children(self.process.pid, True), self.process]:
            try:
                process.kill()
            except (psutil.NoSuchProcess, ProcessLookupError):
                pass
        self.process.wait()

    def _failure(self):
        """(process id, exit code) of the rank that failed first, or None."""
        found = FAILED.search((self.logs / 'msrun.log').read_text(encoding='utf-8', errors='replace'))
        return found and (int(found[1]), int(found[2]))

    def _outcome(self):
        failure = self._failure()
        if failure is None:
            if self.process.returncode:
                print(f'error: msrun ended with exit code {self.process.returncode}:\n'
                      f'{_last_lines(self.logs / "msrun.log")}', file=sys.stderr)
            return min(1, abs(self.process.returncode))
        rank, code = self.ranks.get(failure[0]), failure[1]
        if rank == 0 and code in (2, STOPPED):  # it said why, and was shown
            return code
        name = f'process {failure[0]}' if rank is None else f'rank {rank}'
        how = f'was ended by signal {-code}' if code < 0 else f'ended with exit code {code}'
        log = self.logs / f'worker_{rank}.log'
        print(f'error: {name} {how}, so the other ranks were ended; --resume goes on from the newest checkpoint, '
              f'if there is one. Last lines of {log}:\n{_last_lines(log)}', file=sys.stderr)
        return code if code == 2 else 1


def free_port():
    """A port that is free now."""
    with socket.socket() as one:
        one.bind(('', 0))
        return one.getsockname()[1]


def require_free(port):
    """Raise ``InputError`` where ``port`` cannot be listened at."""
    try:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(('', port))
    except (OSError, OverflowError) as error:
        raise InputError(f'--port {port}: cannot be used ({getattr(error, "strerror", error)}); take another, or leave '
                         'it out on a single machine') from None


def require_rank_table(path, ranks):
    """Raise ``InputError`` unless the rank table ``path`` of Ascend, where there is one, lists ``ranks`` devices."""
    if not path:
        return
    try:
        with open(path, encoding='utf-8') as file:
            count = sum(len(server['device']) for server in json.load(file)['server_list'])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f'RANK_TABLE_FILE {path}: is no rank table ({error!r}); correct or unset it') from None
    if count != ranks:
        raise InputError(f'RANK_TABLE_FILE {path}: lists {count} devices, but --ranks is {ranks}')


def _number(path):
    return int(path.stem.rpartition('_')[2])


def _children(pid, recursive=False):
    try:
        return psutil.Process(pid).children(recursive)
    except psutil.NoSuchProcess:
        return []


def _environment(process):
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def _without_begun(text):
    """``text`` but for a line of MindSpore's log that has no end yet."""
    end = text.rfind(b'\n') + 1
    return text[:end] if text.startswith(b'[', end) else text


def _last_lines(log):
    try:
        lines = INFO.sub(b'', log.read_bytes()).decode('utf-8', 'replace').splitlines()
    except OSError:
        return '(there is none)'
    return '\n'.join(lines[-LAST_LINES:])
