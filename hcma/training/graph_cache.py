"""The compiled step kept on disk, so that a run with the same recipe, or one that goes on, starts without compiling."""
import hashlib
import os
import tempfile
from pathlib import Path

import mindspore as ms
from mindspore.train.callback import Callback

from hcma.kernels.build import cache_folder, library

PACKAGE = Path(__file__).parents[1]


class KeptGraphs(Callback):
    """MindSpore's compile cache for what a run compiles in its first step.

    MindSpore finds a graph by the order of compiling alone. So everything that it is made from names its folder: the
    code, the recipe, MindSpore, the kernels, the number of steps, and the shapes of weights and batch. Weights are no
    part of a graph. The folder appears whole after the step; where it cannot be written, nothing is kept.
    """

    def __init__(self, recipe):
        self.recipe, self.folder, self.scratch, self.is_done = recipe, None, None, False

    def on_train_step_begin(self, run_context):
        run = run_context.original_args()
        if not self.is_done:
            self.open(run.train_network, run.total_steps, run.batch_size)

    def on_train_step_end(self, run_context):  # the first of the callbacks: others may compile something of their own
        self.close()

    def open(self, step, total_steps, batch_size):
        """Look for the graphs of ``step``, or keep those that are compiled from now on."""
        try:
            graphs = cache_folder() / 'graphs'
            graphs.mkdir(parents=True, exist_ok=True)
            folder = place = graphs / _digest(step, self.recipe, total_steps, batch_size)
            if not folder.exists():
                self.scratch = tempfile.TemporaryDirectory(dir=graphs)
                place = Path(self.scratch.name, 'graphs')
        except (OSError, RuntimeError):  # RuntimeError: there is no home folder
            return
        self.folder = folder
        ms.set_context(enable_compile_cache=True, compile_cache_path=str(place))

    def close(self):
        """What is compiled from now on is not kept."""
        self.is_done = True
        if self.folder is None:
            return
        ms.set_context(enable_compile_cache=False)
        if self.scratch is not None:
            made = Path(self.scratch.name, 'graphs')
            if made.exists() and not self.folder.exists():
                made.rename(self.folder)
            self.scratch.cleanup()
        self.folder = self.scratch = None


def _digest(step, recipe, total_steps, batch_size):
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob('*.py')):
        digest.update(path.read_bytes())
    weights = [(parameter.name, parameter.shape) for parameter in step.get_parameters()]
    digest.update(repr((recipe.model_dump_json(), ms.__version__, library(), total_steps, batch_size, weights,
                        os.environ.get('RANK_ID'))).encode())
    return digest.hexdigest()[:32]
