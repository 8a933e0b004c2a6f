"""The staged step is the fused one: loss, gradients, weights, overflow, and what a checkpoint holds."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from mindspore.train.callback import Callback

from hcma.training.checkpoint import MODEL, STATE, checkpoints
from hcma.training.staged import StagedTrainStep
from hcma.training.step import HCMATrainStep
from hcma.training.trainer import build_step, train
from helpers.batches import make_columns
from helpers.packs import make_pack

EVERY = ['sentence_global', 'word_patch', 'phrase_region']
SHALLOW = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
BATCH = 6
# Loss, model, wrong texts, and the rows of a part: some divide the batch, some leave a part that has to be filled up.
GIVEN = {'regions': 'boxes', 'phrases': 'chunks', 'max_boxes': 3, 'max_chunks': 4, 'region_sizes': [2]}
CASES = {'fusion': ({'levels': EVERY, 'balance': 'uncertainty'}, {'fusion': {'heads': 2}}, False, None, 4),
         'sigmoid': ({'contrast': 'sigmoid', 'score': 'in_pair', 'temperature': {'initial': 0.1, 'learnable': False}},
                     SHALLOW, True, 4, 1),
         'given': ({'levels': ['sentence_global', 'phrase_region']}, {**SHALLOW, **GIVEN}, True, 4, 5)}
GRAPH = {'patches kept': ({'label_smoothing': 0.1}, {**SHALLOW, 'fusion': {'heads': 2}}, True, 2, 5),
         'boxes and chunks': ({'levels': ['phrase_region']}, {**SHALLOW, **GIVEN}, True, 2, 5)}


def steps(make_recipe, vocabulary, case):
    """The fused and the staged step of one case, and the recipe."""
    loss, model, _, images, texts = {**CASES, **GRAPH}[case]
    regions = 'phrase_region' in loss.get('levels', ())
    once = {'eps': 1e-3, 'batch_size': BATCH, 'drop_patches': 0.0 if regions else 0.6}
    parts = {'image_micro_batch': images, 'text_micro_batch': texts}
    recipes = [make_recipe(loss=loss, model=model, train={**once, **extra}) for extra in ({}, parts)]
    return [build_step(recipe, vocabulary, 10) for recipe in recipes], recipes[0]


def run(pair, batches):
    """Takes the same steps with both; returns the metrics of each and the states at the end, by name."""
    rows = [[step(*batch)[1].asnumpy() for batch in batches] for step in pair]
    return rows, [{p.name: p.asnumpy() for p in step.get_parameters()} for step in pair]


def assert_same(rows, states):
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-4)
    assert list(states[0]) == list(states[1])  # so a checkpoint of one is one of the other
    for name, expected in states[0].items():  # the first moments are the gradients, clipped
        np.testing.assert_allclose(states[1][name], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max() + 1e-9)


@pytest.mark.parametrize('case', CASES)
def test_staged_equals_fused(case, make_recipe, vocabulary):
    pair, recipe = steps(make_recipe, vocabulary, case)
    assert [type(step) for step in pair] == [HCMATrainStep, StagedTrainStep]
    assert_same(*run(pair, [make_columns(recipe, BATCH, CASES[case][2])]))


@pytest.mark.graph
@pytest.mark.parametrize('case', GRAPH)
def test_staged_equals_fused_for_three_steps_and_every_piece_compiles_once(case, make_recipe, vocabulary):
    pair, recipe = steps(make_recipe, vocabulary, case)
    assert_same(*run(pair, [make_columns(recipe, BATCH, True, seed) for seed in range(3)]))
    assert [len(piece.compile_cache) for piece in (*pair[1].pieces, pair[0])] == [1] * 7


@pytest.mark.parametrize('place', ['image_tower.to_global.linear', 'text_tower.to_sentence.linear', 'log_scale'])
def test_an_overflow_anywhere_skips_the_whole_step(place, make_recipe, vocabulary):
    recipe = make_recipe(model=SHALLOW, loss={'levels': ['sentence_global']},
                         train={'batch_size': BATCH, 'image_micro_batch': 4})
    step = build_step(recipe, vocabulary, 10)
    (weight,) = (parameter for parameter in step.weights if place in parameter.name)
    weight.set_data(Tensor(np.full(weight.shape, np.inf), ms.float32))
    before = {p.name: p.asnumpy().copy() for p in step.get_parameters()}
    metrics = dict(zip(step.metric_names, step(*make_columns(recipe, BATCH, False))[1].asnumpy()))
    assert metrics['overflow'] == 1 and step.loss_scale.asnumpy() == before['loss_scale'] / 2
    changed = {p.name for p in step.get_parameters() if not np.array_equal(p.asnumpy(), before[p.name])}
    assert changed == {'loss_scale', 'current_iterator_step', 'last_overflow_iterator_step'}


class StopAfter(Callback):
    """Ends a run after that many steps."""

    def __init__(self, steps):
        self.steps = steps

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.steps:
            run_context.request_stop()


def test_a_resumed_staged_run_is_the_uninterrupted_one(make_recipe, tmp_path):
    data = {'train': str(make_pack(tmp_path / 'data', count=13))}
    recipe = make_recipe(model={**SHALLOW, 'fusion': {'heads': 2}}, loss={'levels': ['sentence_global']}, data=data,
                         train={'mode': 'pynative', 'batch_size': 4, 'image_micro_batch': 3})
    assert train(recipe, tmp_path / 'straight')
    assert train(recipe, tmp_path / 'broken', callbacks=[StopAfter(2)]) is False
    assert train(recipe, tmp_path / 'broken', resume=True)
    ends = [checkpoints(tmp_path / run)[-1] for run in ('straight', 'broken')]
    for name in (MODEL, STATE):
        assert (ends[0] / name).read_bytes() == (ends[1] / name).read_bytes()
