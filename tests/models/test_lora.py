"""Low-rank additions start as nothing, merge without a trace, and with frozen towers decide what training may move."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from hcma.models.hcma import build_model
from hcma.models.image_encoder import ImageEncoder
from hcma.models.layers import Init
from hcma.models.lora import is_addition, merge_lora
from hcma.training.trainer import build_step

BOTH = {'image': {'train': 'lora'}, 'text': {'train': 'lora'}, 'lora': {'rank': 3, 'alpha': 5}}
ONE_EACH = {'image': {'train': 'lora'}, 'text': {'train': 'frozen'}}


def weights(cell):
    return {parameter.name: parameter.asnumpy().copy() for parameter in cell.get_parameters()}


@pytest.fixture(scope='module')
def models(make_recipe, vocabulary):
    """A plain model, and one with additions, both of the same seed."""
    return [build_model(make_recipe(model), vocabulary).set_train(False) for model in ({}, BOTH)]


def test_the_base_and_the_function_are_those_of_the_model_without_additions(models, make_recipe, make_batch):
    plain, lora = models
    before, after = weights(plain), weights(lora)
    assert {name for name in after if not is_addition(name)} == before.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    for one, other in zip(plain(*make_batch(make_recipe())[:3]), lora(*make_batch(make_recipe())[:3])):
        assert np.array_equal(one.asnumpy(), other.asnumpy())


def test_merged_weights_give_the_same_outputs_without_additions(models, make_recipe, make_batch):
    plain, lora = models
    rng = np.random.default_rng(0)
    for parameter in lora.get_parameters():
        if is_addition(parameter.name):
            parameter.set_data(Tensor(rng.standard_normal(parameter.shape) * 0.2, ms.float32))
    batch = make_batch(make_recipe())[:3]
    before = [score.asnumpy() for score in plain(*batch)]
    arrays = merge_lora(lora)
    assert arrays.keys() == weights(plain).keys()
    for parameter in plain.get_parameters():
        parameter.set_data(Tensor(arrays[parameter.name]))
    for start, merged, unmerged in zip(before, plain(*batch), lora(*batch)):
        np.testing.assert_allclose(merged.asnumpy(), unmerged.asnumpy(), atol=1e-5)
        assert np.abs(start - merged.asnumpy()).max() > 0.05


def test_only_additions_and_what_is_outside_the_encoders_moves_and_has_moments(make_recipe, make_batch, vocabulary):
    recipe = make_recipe(ONE_EACH)
    step = build_step(recipe, vocabulary, 4)
    before = weights(step.network.model)
    for seed in (0, 1):  # lora_down has no gradient while lora_up is zero
        step(*make_batch(recipe, seed=seed))
    after = weights(step.network.model)
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    expected = {name for name in before if '.encoder.' not in name or is_addition(name)}
    assert moved == expected and {name for name in expected if is_addition(name)}
    for moments in (step.optimizer.moment1, step.optimizer.moment2):
        assert {moment.name.split('.', 1)[1] for moment in moments} == expected


def gradients(config, recompute, picture):
    encoder = ImageEncoder(config.model_copy(update={'recompute': recompute}), Init(0))

    def loss(picture):
        patch_BPD, global_BD = encoder(picture)
        return (patch_BPD * patch_BPD * patch_BPD).sum() + global_BD.sum()
    value, found = ops.value_and_grad(loss, None, encoder.trainable_params())(picture)
    return [value.asnumpy(), *(gradient.asnumpy() for gradient in found)]


@pytest.mark.graph
def test_recomputed_blocks_give_identical_gradients(make_recipe, make_batch):
    config = make_recipe({'image': {'depth': 2}}).model.image
    picture = make_batch(make_recipe())[0]
    kept, recomputed = gradients(config, 'off', picture), gradients(config, 2, picture)  # the first of two blocks
    assert all(np.array_equal(one, other) for one, other in zip(kept, recomputed))
