"""Jobs side by side: all of them run, each with its own log, and the one that fails is named."""
import sys

import pytest

from hcma.errors import InputError
from hcma.processes import run_all


def job(name, folder, code):
    return name, [sys.executable, '-c', code], folder / f'{name}.log'


def test_every_job_runs_with_a_log_of_its_own(tmp_path):
    run_all([job(name, tmp_path / 'new', f'print("I am {name}")') for name in ('one', 'two', 'three')])
    said = [(tmp_path / 'new' / f'{name}.log').read_text() for name in ('one', 'three')]
    assert said == ['I am one\n', 'I am three\n']


def test_a_job_that_fails_is_named_with_its_log(tmp_path):
    with pytest.raises(InputError, match='broken ended with exit code 3; see .*broken.log'):
        run_all([job('broken', tmp_path, 'raise SystemExit(3)')])
