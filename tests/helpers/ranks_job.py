"""What one rank of a test does: ``msrun … ranks_job.py MODE CASE…`` fails where ranks and one process differ.

The first rank goes through every case by itself before it joins the others; then all of them share the same batches.
"""
import os
import sys

import numpy as np
from mindspore import Tensor

from hcma import backend, distributed
from hcma.recipe_io import parse_recipe
from hcma.training.trainer import build_step
from helpers.batches import VOCABULARY, make_columns

BATCH, STEPS = 6, 5
EVERY = ['sentence_global', 'word_patch', 'phrase_region']
SHALLOW = {'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 4, 'depth': 1}, 'text': {'depth': 1}}
GIVEN = {'regions': 'boxes', 'phrases': 'chunks', 'max_boxes': 3, 'max_chunks': 4, 'region_sizes': [2]}
FUSION = {**SHALLOW, 'fusion': {'heads': 2}}
PARTS = {'image_micro_batch': 2, 'text_micro_batch': 1}
# Recipe, and whether there are wrong texts.
CASES = {
    'every level': ({'model': FUSION, 'loss': {'levels': EVERY, 'balance': 'uncertainty'}}, True),
    'staged': ({'model': FUSION, 'loss': {'levels': EVERY, 'label_smoothing': 0.1}, 'train': PARTS}, True),
    'sigmoid': ({'model': SHALLOW, 'loss': {'contrast': 'sigmoid', 'score': 'attention'}}, True),
    'in pair': ({'model': FUSION, 'loss': {'levels': ['word_patch'], 'score': 'in_pair'}}, False),
    'given': ({'model': {**SHALLOW, **GIVEN}, 'loss': {'levels': ['phrase_region']}, 'train': PARTS}, True),
    'dropped': ({'model': FUSION, 'train': {'drop_patches': 0.6}}, False),
    'mixed': ({'model': FUSION, 'precision': {'image': 'fp16', 'text': 'fp16'}}, False),
}
TOLERANCE = {'mixed': 5e-3}  # in 16 bits products of other sizes are rounded otherwise


def batches(recipe, negatives):
    """The global batches; images are shared by rows of two ranks, and so are captions; ids have more than 32 bits."""
    for seed in range(STEPS):
        columns = list(make_columns(recipe, BATCH, negatives, seed))
        place = recipe.columns.index('group')
        columns[place] = Tensor(2 ** 40 + np.array([[0, 10], [1, 11], [2, 12], [3, 10], [1, 14], [5, 15]]))
        yield columns


def trained(recipe, negatives):
    """Metrics of every step, and the weights after them, by name."""
    step, share = build_step(recipe, VOCABULARY, 10), BATCH // distributed.ranks()
    own = slice(distributed.rank() * share, (distributed.rank() + 1) * share)
    rows = [step(*(column[own] for column in columns))[1].asnumpy() for columns in batches(recipe, negatives)]
    found = {p.name: p.asnumpy() for p in step.network.model.get_parameters()}
    return {**{f'{name} by step': np.array(row) for name, row in zip(step.metric_names, np.array(rows).T)}, **found}


def difference(found, expected):
    """The largest difference, relative to the largest number of its kind (but to no less than 1), and its name."""
    return max((float(np.abs(found[name] - expected[name]).max() / max(1, np.abs(expected[name]).max())), name)
               for name in expected)


def main(mode, cases):
    backend.set_up(mode)
    launched = [(case, parse_recipe({**CASES[case][0], 'train': {
        'epochs': 1, 'batch_size': BATCH, 'eps': 1e-3, **CASES[case][0].get('train', {})}}, case)) for case in cases]
    expected = {case: trained(recipe, CASES[case][1]) for case, recipe in launched
                if (os.environ['MS_ROLE'], os.environ['RANK_ID']) == ('MS_WORKER', '0')}  # the scheduler has RANK_ID 0
    distributed.start()
    wrong = []
    for case, recipe in launched:
        found = trained(recipe, CASES[case][1])
        if distributed.is_first():
            largest, name = difference(found, expected[case])
            print(f'{mode}, {case}: {largest:.2e} ({name}), loss {found["loss by step"]}', flush=True)
            wrong += [case] * (largest > TOLERANCE.get(case, 1e-5))
    assert not wrong, wrong


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2:] or list(CASES))
