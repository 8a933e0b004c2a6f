"""What every command-line tool shares: exit codes, and silence about what the user cannot change.

Exit codes: 0 done, 2 the user's input is wrong (one sentence on stderr), 1 a fault of ours (a stack trace),
130 interrupted.
"""
import argparse
import os
import sys
import warnings

from hcma.errors import InputError


def run(main):
    """Call ``main()`` and turn its outcome into the process's exit code."""
    prepare_process()
    try:
        code = main() or 0
    except InputError as error:
        print(f'error: {error}', file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print('interrupted', file=sys.stderr)
        code = 130
    sys.exit(code)


def positive(text):
    """Return ``text`` as an int above 0, or let argparse refuse it."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text} is not above 0')
    return number


def prepare_process():
    """What must be set before MindSpore is imported.

    Its warnings name nothing a user could act on, so only errors show. Its threads sleep while they wait: by default
    they spin, which gains nothing alone, and slows every process manyfold where two share the cores.
    """
    os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
    os.environ.setdefault('GLOG_v', '3')
    warnings.filterwarnings('ignore', module='mindspore')
    warnings.filterwarnings('ignore', module='numpy')
