"""Compiles ``cpu.cpp`` once per machine and version, into the user's cache folder."""
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name('cpu.cpp')
# Without -ffast-math: NaN and Inf have to come through for the loss scale to work.
FLAGS = ('-O3', '-march=native', '-std=c++17', '-fno-math-errno', '-fopenmp', '-shared', '-fPIC')
SWITCH = 'HCMA_KERNELS'  # 0 turns the kernels off


def switched_off():
    """Whether the user wants MindSpore's own operations only."""
    return os.environ.get(SWITCH) == '0'


@functools.lru_cache(maxsize=None)
def library():
    """The path of the compiled kernels, or None where there is no compiler, no cache folder, or the switch is off."""
    compiler = shutil.which(os.environ.get('CXX', 'g++'))
    if switched_off() or compiler is None:
        return None
    try:
        return _build(compiler)
    except (OSError, RuntimeError, subprocess.SubprocessError):  # RuntimeError: there is no home folder
        return None


def cache_folder():
    """Where what was compiled is kept; raises RuntimeError where there is no home folder."""
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'hcma'


def _build(compiler):
    # The processor is part of the name: a home folder may be shared between machines that differ.
    made_from = (SOURCE.read_bytes(), compiler, FLAGS, platform.machine(), _processor())
    folder = cache_folder()
    path = folder / f'kernels-{hashlib.sha256(repr(made_from).encode()).hexdigest()[:16]}.so'
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, path.name)
            subprocess.run([compiler, *FLAGS, '-o', made, SOURCE], check=True, capture_output=True, timeout=300)
            made.rename(path)  # appears whole, whoever else is building it
    return str(path)


def _processor():
    """What tells this kind of processor from others."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.processor()
    return sorted({line for line in lines if line.startswith(('model name', 'flags', 'Features', 'CPU part'))})
