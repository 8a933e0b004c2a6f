"""Ranks against one process: ``python tests/helpers/ranks_job.py RANKS MODE [CASE]…`` fails where they differ.

It starts itself once for each rank, which train on parts of the same batches, while it trains on all of them. What is
compared is what a checkpoint holds that was written, read and written once more.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from mindspore import Tensor, ops
from safetensors.numpy import load_file

from hcma import backend, cli, distributed
from hcma.data.tokenizer import train_tokenizer
from hcma.job import free_port
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import MODEL, STATE, checkpoint_path, load_state, save_checkpoint
from hcma.training.trainer import build_step
from helpers.batches import VOCABULARY, make_columns

BATCH, STEPS = 6, 5
EVERY = ['sentence_global', 'word_patch', 'phrase_region']
SHALLOW = {'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 4, 'depth': 1}, 'text': {'depth': 1}}
GIVEN = {'regions': 'boxes', 'phrases': 'chunks', 'max_boxes': 3, 'max_chunks': 4, 'region_sizes': [2]}
FUSION = {**SHALLOW, 'fusion': {'heads': 2}}
BARE = {**FUSION, 'image': {**SHALLOW['image'], 'depth': 0}, 'text': {'depth': 0}}  # ranks do not meet in blocks
PARTS = {'image_micro_batch': 2, 'text_micro_batch': 1}
SHARDED = {'shard_optimizer': True}
# Recipe, and whether there are wrong texts.
CASES = {
    'every level': ({'model': FUSION, 'loss': {'levels': EVERY, 'balance': 'uncertainty'}}, True),
    'staged': ({'model': FUSION, 'loss': {'levels': EVERY, 'label_smoothing': 0.1}, 'train': PARTS}, True),
    'sigmoid': ({'model': SHALLOW, 'loss': {'contrast': 'sigmoid', 'score': 'attention'}}, True),
    'in pair': ({'model': FUSION, 'loss': {'levels': ['word_patch'], 'score': 'in_pair'}}, False),
    'given': ({'model': {**SHALLOW, **GIVEN}, 'loss': {'levels': ['phrase_region']}, 'train': PARTS}, True),
    'dropped': ({'model': FUSION, 'train': {'drop_patches': 0.6}}, False),
    'sharded': ({'model': SHALLOW, 'train': SHARDED}, True),
    'staged, sharded': ({'model': BARE, 'loss': {'levels': EVERY, 'label_smoothing': 0.1},
                         'train': {**PARTS, **SHARDED}}, True),
    'mixed': ({'model': FUSION, 'precision': {'image': 'fp16', 'text': 'fp16'}}, False),
}
MOMENTS = ('moment1.', 'moment2.')
TOLERANCE = {'mixed': 5e-3}  # in 16 bits products of other sizes are rounded otherwise


def batches(recipe, negatives):
    """The global batches; images are shared by rows of two ranks, and so are captions; ids have more than 32 bits."""
    for seed in range(STEPS):
        columns = list(make_columns(recipe, BATCH, negatives, seed))
        place = recipe.columns.index('group')
        columns[place] = Tensor(2 ** 40 + np.array([[0, 10], [1, 11], [2, 12], [3, 10], [1, 14], [5, 15]]))
        yield columns


def trained(case, folder):
    """Train on this rank's part of the batches; ``folder`` gets a checkpoint and the metrics of every step."""
    recipe, negatives = recipe_of(case), CASES[case][1]
    step, share = build_step(recipe, VOCABULARY, 10), BATCH // distributed.ranks()
    own = slice(distributed.rank() * share, (distributed.rank() + 1) * share)
    rows = [step(*(column[own] for column in columns))[1].asnumpy() for columns in batches(recipe, negatives)]
    kept(step, recipe, folder, 1)
    for parameter in step.get_parameters():
        ops.assign(parameter, Tensor(np.zeros(parameter.shape), parameter.dtype))
    load_state(checkpoint_path(folder, 1), step)
    kept(step, recipe, folder, 2)
    if distributed.is_first():
        np.savez(folder / 'metrics.npz', **{f'{name} by step': row for name, row in zip(step.metric_names, zip(*rows))})


def recipe_of(case):
    sections = CASES[case][0]
    train = {'epochs': 1, 'batch_size': BATCH, 'eps': 1e-3, **sections.get('train', {})}
    return parse_recipe({**sections, 'train': train}, case)


def kept(step, recipe, folder, number):
    """Write a checkpoint, and wait until it is there."""
    save_checkpoint(checkpoint_path(folder, number), step, recipe, train_tokenizer(['a red cat'], 300, 16), {})
    distributed.everyone(0)


def read(folder):
    """All that ``trained`` left in ``folder``, {name: array}."""
    path = checkpoint_path(folder, 2)
    return {**load_file(path / MODEL), **load_file(path / STATE), **np.load(folder / 'metrics.npz')}


def differences(found, expected):
    """How far each array is off, relative to what it may be, {name: share}.

    That is its largest number, but no less than 1; and for moments, which are small and follow gradients, ten times the
    largest of their kind.
    """
    assert found.keys() == expected.keys()
    sizes = {name: max(1, np.abs(array).max()) for name, array in expected.items()}
    for kind in MOMENTS:
        moments = [name for name in expected if name.startswith(kind)]
        sizes.update(dict.fromkeys(moments, 10 * max(np.abs(expected[name]).max() for name in moments)))
    return {name: float(np.abs(found[name] - expected[name]).max() / sizes[name]) for name in expected}


def compare(ranks, mode, cases, folder, seconds=300):
    """Train each of ``cases`` on ``ranks`` ranks and in this process, whose mode is set, both at once.

    Returns {case: (largest difference, of what, what is allowed)} and raises where the ranks fail or take longer.
    """
    command = [sys.executable, '-m', 'mindspore.parallel.cluster.run', f'--worker_num={ranks}',
               f'--local_worker_num={ranks}', f'--master_port={free_port()}', '--join=True', '--log_dir=logs',
               f'--cluster_time_out={seconds}', os.path.abspath(__file__), mode, *cases]
    with open(folder / 'output.txt', 'w+', encoding='utf-8') as output:
        job = subprocess.Popen(['timeout', '-k', '5', str(seconds), *command], cwd=folder, env=environment(),
                               stdout=output, stderr=output)
        try:
            for case in cases:
                trained(case, folder / 'one' / case)
            code = job.wait()
        finally:
            job.terminate()  # timeout passes it on
        assert code == 0, (folder / 'output.txt').read_text(encoding='utf-8')[-3000:]
    found = {}
    for case in cases:
        shares = differences(read(folder / 'ranks' / case), read(folder / 'one' / case))
        name = max(shares, key=shares.get)
        found[case] = shares[name], name, TOLERANCE.get(case, 1e-5)
    return found


def environment():
    """That of a rank: it finds hcma and the helpers, and does without what spins."""
    root = Path(__file__).parents[2]
    return {**os.environ, 'GLOG_v': '3', 'OMP_WAIT_POLICY': 'PASSIVE', 'OMP_NUM_THREADS': '1',
            'PATH': os.pathsep.join([os.path.dirname(sys.executable), os.environ['PATH']]),
            'PYTHONPATH': os.pathsep.join([str(root), str(root / 'tests')])}


def main():
    """A rank of a launch, or what starts them all."""
    if distributed.is_launched():
        mode, *cases = sys.argv[1:]
        backend.set_up(mode)
        distributed.start()
        for case in cases:
            trained(case, Path('ranks', case))
        return 0
    ranks, mode, *cases = sys.argv[1:]
    backend.set_up(mode)
    with tempfile.TemporaryDirectory() as folder:
        found = compare(int(ranks), mode, cases or list(CASES), Path(folder), 3600)
    for case, (largest, name, allowed) in found.items():
        print(f'{mode}, {case}: {largest:.2e} of {allowed:.0e} ({name})')
    return int(any(largest > allowed for largest, _, allowed in found.values()))


if __name__ == '__main__':
    cli.run(main)
