"""tools/train.py that kills itself: ``dying_train.py MOMENT STEP arguments of tools/train.py``."""
import os
import runpy
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

from hcma.training import callbacks, checkpoint

TRAIN = Path(__file__).parents[2] / 'tools' / 'train.py'


def die():
    """End this process as a lost machine would."""
    os.kill(os.getpid(), signal.SIGKILL)


def after_step(step):
    """When the lines of all steps up to ``step`` are in the log, and half of another."""
    write = callbacks.StepLog.on_train_step_end

    def on_train_step_end(log, context):
        log.every = 1
        write(log, context)
        if context.original_args().cur_step_num == step:
            log.file.write('{"step": ' + str(step + 1) + ', "lo')
            log.file.flush()
            die()
    callbacks.StepLog.on_train_step_end = on_train_step_end


def in_file(step):
    """When the weights are written and the training state of the checkpoint after ``step`` in half."""
    write = checkpoint.save_file

    def save_file(arrays, path, metadata=None):
        write(arrays, path, metadata)
        if path.parent.name == f'.step_{step:08d}.partial' and path.name == checkpoint.STATE:
            os.truncate(path, path.stat().st_size // 2)
            die()
    checkpoint.save_file = save_file


def in_removal(step):
    """When the old checkpoint of ``step`` is removed in half."""
    def rmtree(path):
        if path.name == f'.step_{step:08d}.old':
            (path / checkpoint.STATE).unlink()
            die()
        shutil.rmtree(path)
    checkpoint.shutil = SimpleNamespace(rmtree=rmtree)


if __name__ == '__main__':
    {'after_step': after_step, 'in_file': in_file, 'in_removal': in_removal}[sys.argv[1]](int(sys.argv[2]))
    sys.argv = [str(TRAIN), *sys.argv[3:]]
    runpy.run_path(str(TRAIN), run_name='__main__')
