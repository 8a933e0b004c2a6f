"""A callback that leaves behind what a kill would."""
import shutil

from mindspore.train.callback import Callback


class Copy(Callback):
    """Copies the run's folder after step 3: what a kill at that moment would leave."""

    def __init__(self, run, into):
        self.run, self.into = run, into

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == 3:
            shutil.copytree(self.run, self.into)
