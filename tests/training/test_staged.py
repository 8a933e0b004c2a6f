"""The staged step is the fused one: loss, gradients, weights, overflow, and what a checkpoint holds."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.training.staged import StagedTrainStep
from hcma.training.step import HCMATrainStep
from hcma.training.trainer import build_step

EVERY = ['sentence_global', 'word_patch', 'phrase_region']
FUSION = {'fusion': {'heads': 2}}
BATCH = 6
# Rows of a part: some divide the batch, some leave a part that has to be filled up.
CASES = {'levels': ({'levels': EVERY}, {}, False, 4, 2),
         'fusion': ({'levels': EVERY, 'balance': 'uncertainty'}, FUSION, False, None, 4),
         'negatives': ({'levels': EVERY, 'label_smoothing': 0.1}, FUSION, True, 2, 5),
         'in pair': ({'score': 'in_pair'}, {}, True, 3, None),
         'sigmoid': ({'contrast': 'sigmoid', 'temperature': {'initial': 0.1, 'learnable': False}}, {}, False, 1, 1)}


def inputs_of(make_batch, recipe, negatives, seed=0):
    image, ids, lengths, group = make_batch(recipe, BATCH, seed)
    wrong = (ids[::-1], lengths * Tensor([1, 0, 1, 1, 0, 1], ms.int32)) if negatives else ()
    return image, ids, lengths, group, *wrong


def steps(make_recipe, vocabulary, case):
    """The fused and the staged step of one case, and the recipe."""
    loss, model, _, images, texts = CASES[case]
    train = {'eps': 1e-3, 'batch_size': BATCH}
    parts = {'image_micro_batch': images, 'text_micro_batch': texts}
    recipes = [make_recipe(loss=loss, model=model, train={**train, **extra}) for extra in ({}, parts)]
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
def test_staged_equals_fused(case, make_recipe, make_batch, vocabulary):
    pair, recipe = steps(make_recipe, vocabulary, case)
    assert [type(step) for step in pair] == [HCMATrainStep, StagedTrainStep]
    assert_same(*run(pair, [inputs_of(make_batch, recipe, CASES[case][2])]))


@pytest.mark.graph
def test_staged_equals_fused_for_three_steps_and_every_piece_compiles_once(make_recipe, make_batch, vocabulary):
    pair, recipe = steps(make_recipe, vocabulary, 'negatives')
    assert_same(*run(pair, [inputs_of(make_batch, recipe, True, seed) for seed in range(3)]))
    assert [len(piece.compile_cache) for piece in pair[1].pieces] == [1] * 6


@pytest.mark.parametrize('place', ['image_tower.to_global.linear', 'text_tower.to_word.linear', 'log_scale'])
def test_an_overflow_anywhere_skips_the_whole_step(place, make_recipe, make_batch, vocabulary):
    recipe = make_recipe(train={'batch_size': BATCH, 'image_micro_batch': 4})
    step = build_step(recipe, vocabulary, 10)
    (weight,) = (parameter for parameter in step.weights if place in parameter.name)
    weight.set_data(Tensor(np.full(weight.shape, np.inf), ms.float32))
    before = {p.name: p.asnumpy().copy() for p in step.get_parameters()}
    metrics = dict(zip(step.metric_names, step(*inputs_of(make_batch, recipe, False))[1].asnumpy()))
    assert metrics['overflow'] == 1 and step.loss_scale.asnumpy() == before['loss_scale'] / 2
    changed = {p.name for p in step.get_parameters() if not np.array_equal(p.asnumpy(), before[p.name])}
    assert changed == {'loss_scale', 'current_iterator_step', 'last_overflow_iterator_step'}
