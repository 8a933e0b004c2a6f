"""The set-up scripts say in one sentence what a machine lacks, and reuse what is there. Nothing is installed here."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMANDS = ('bash', 'dirname', 'df', 'awk', 'grep', 'tail', 'cut', 'du', 'rm', 'mv', 'mkdir', 'sleep', 'cat')


@pytest.fixture
def project(tmp_path):
    """A copy of the scripts, with a ``bin`` folder that holds the usual commands and no Python."""
    root = tmp_path / 'a project'
    shutil.copytree(ROOT / 'tools', root / 'tools', ignore=shutil.ignore_patterns('*.py', '__pycache__'))
    for name in ('setup.cfg', 'pyproject.toml'):
        shutil.copy(ROOT / name, root)
    (root / 'bin').mkdir()
    for name in COMMANDS:
        (root / 'bin' / name).symlink_to(shutil.which(name))
    return root


def stub(path, script):
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f'#!/bin/sh\n{script}\n')
    path.chmod(0o755)


def run(project, *command, cwd=None, **env):
    env = {'PATH': str(project / 'bin'), 'HOME': str(project), **{k: str(v) for k, v in env.items()}}
    command = [shutil.which('bash'), *map(str, command)]
    return subprocess.run(command, cwd=cwd or project, env=env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=20)


def call(project, script, **env):
    """Run a line of shell with setup_env.sh sourced."""
    return run(project, '-c', f'set -euo pipefail; source tools/setup_env.sh; {script}', **env)


def finished_venv(project, extra=''):
    """A .venv that passes for installed: this test's own Python behind a stamp."""
    (project / '.venv/bin').mkdir(parents=True)
    stub(project / '.venv/bin/python', f'exec "{sys.executable}" "$@"')
    assert call(project, f'fingerprint "{extra}" >"$stamp"').returncode == 0


def refusal(result):
    """The one sentence of a run that was refused because of the machine."""
    assert result.returncode == 2
    assert result.stdout == ''
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith('error: ')
    return lines[0]


@pytest.mark.parametrize('script', ['quickstart.sh', 'test.sh', 'lint.sh'])
def test_without_python_one_sentence_says_which_is_needed(project, script):
    sentence = refusal(run(project, f'tools/{script}'))
    assert 'Python 3.10, 3.11 or 3.12' in sentence and 'PYTHON' in sentence
    assert refusal(run(project, script, cwd=project / 'tools', PATH='')) == sentence
    assert not (project / '.venv').exists()


def test_an_unsupported_python_is_named_with_its_version(project):
    stub(project / 'bin/old', 'echo 3.9')
    assert 'old is 3.9' in refusal(run(project, 'tools/test.sh', PYTHON='old'))
    stub(project / 'bin/python3', 'echo 3.13')
    assert 'python3 is 3.13' in refusal(run(project, 'tools/test.sh'))


def test_a_chosen_python_that_does_not_run_is_not_replaced_by_another(project):
    stub(project / 'bin/python3', f'exec "{sys.executable}" "$@"')
    assert 'PYTHON=/nowhere/python does not run' in refusal(run(project, 'tools/test.sh', PYTHON='/nowhere/python'))


def test_a_python_without_venv_is_passed_over_and_named(project):
    stub(project / 'bin/python3.11', 'case "$2" in *ensurepip*) exit 1;; *) echo 3.11;; esac')
    assert 'python3.11 lacks the venv' in refusal(run(project, 'tools/test.sh'))


def test_a_shim_that_does_not_run_is_passed_over(project):
    stub(project / 'bin/python3.12', 'echo "pyenv: python3.12: command not found" >&2; exit 127')
    stub(project / 'bin/python3', f'exec "{sys.executable}" "$@"')
    result = call(project, 'find_python; echo "$base_python"')
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, 'python3', '')


@pytest.mark.parametrize('script', ['quickstart.sh', 'test.sh'])
def test_a_full_disk_is_refused_before_anything_is_made(project, script):
    stub(project / 'bin/df', 'echo header; echo "/dev/a b 9 9 102400 9% /a b"')
    stub(project / 'bin/python3', f'exec "{sys.executable}" "$@"')
    sentence = refusal(run(project, f'tools/{script}'))
    assert '100 MB free' in sentence and '4608 MB' in sentence
    assert not (project / '.venv').exists()


@pytest.mark.parametrize('line, sentence', [
    ("WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'", 'cannot reach its package'),
    ('ERROR: HTTPSConnectionPool(host=x): Read timed out.', 'cannot reach its package'),
    ('ERROR: [Errno 28] No space left on device', 'disk is full'),
])
def test_what_stopped_pip_is_said_in_one_sentence(project, line, sentence):
    (project / '.venv').mkdir()
    (project / '.venv/install.log').write_text(f'Collecting numpy\n{line}\nERROR: no distribution\n')
    assert sentence in refusal(call(project, 'failed "pip could not install"'))


def test_an_unknown_failure_shows_the_end_of_the_log(project):
    (project / '.venv').mkdir()
    (project / '.venv/install.log').write_text('first\n' * 50 + 'ERROR: these versions conflict\n')
    result = call(project, 'failed "pip could not install hcma"')
    assert result.returncode == 1
    assert 'these versions conflict' in result.stderr and result.stderr.count('first') == 14


def test_a_second_run_reuses_what_is_there(project):
    finished_venv(project, 'test')
    for extra in ('', 'test'):
        result = call(project, f'ensure_env {extra}')
        assert (result.returncode, result.stderr) == (0, '')


@pytest.mark.parametrize('change', ['echo >>setup.cfg', 'echo unfinished >"$stamp"', 'rm "$stamp"', 'rm "$python"'])
def test_a_change_or_a_half_finished_install_installs_again(project, change):
    finished_venv(project)
    assert call(project, 'installed ""').returncode == 0
    assert call(project, 'installed test').returncode == 1
    assert call(project, f'{change}; installed ""').returncode == 1


def test_a_half_finished_install_is_not_built_upon(project):
    finished_venv(project)
    assert call(project, 'venv_usable').returncode == 0
    assert call(project, 'mark_unfinished; venv_usable').returncode == 1


def test_a_folder_that_is_not_ours_is_not_removed(project):
    (project / '.venv').mkdir()
    (project / '.venv/mine').write_text('precious')
    assert 'move it away' in refusal(run(project, 'tools/test.sh'))
    assert (project / '.venv/mine').read_text() == 'precious'


@pytest.mark.parametrize('arguments, out', [([], '{root}/runs/quickstart'), (['--out', 'here'], 'here'),
                                            (['--out=a b'], 'a b')])
def test_quickstart_passes_its_options_on_from_any_folder(project, tmp_path, arguments, out):
    finished_venv(project)
    (project / 'recipes').mkdir()
    (project / 'recipes/quickstart.py').write_text('import os, sys; print([os.getcwd(), *sys.argv[1:]])')
    result = run(project, project / 'tools/quickstart.sh', *arguments, '--seed', '3', cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str([os.fspath(tmp_path), '--out', out.format(root=project), '--seed', '3'])
