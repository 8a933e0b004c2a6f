"""A run that starts from a converted model: the original before the first step, and its towers trained as told."""
import numpy as np
import pytest
from mindspore import Tensor
from safetensors.numpy import load_file

from hcma.interop.convert import convert
from hcma.recipe_io import load_recipe, parse_recipe
from hcma.training.checkpoint import MODEL, checkpoints, load_model
from hcma.training.tasks import task_of
from hcma.training.trainer import train
from helpers.foreign_weights import config_of, tensors_of, write_model
from helpers.packs import make_pack


@pytest.fixture(scope='module')
def start(tmp_path_factory):
    """A pack of pairs and a converted CLIP."""
    folder = tmp_path_factory.mktemp('finetune')
    convert(write_model(folder / 'hf', config_of('clip'), tensors_of(config_of('clip'))), folder / 'clip')
    return make_pack(folder, count=4), folder / 'clip'


def recipe_of(start, **model):
    """The recipe that the conversion wrote, as a run that starts from its weights."""
    values = load_recipe(start[1] / 'recipe.yaml').model_dump(mode='json')
    values['model'].update(weights=str(start[1]), fusion={'heads': 2})
    for tower, changes in model.items():
        values['model'][tower].update(changes)
    values['train'].update(mode='pynative', batch_size=4, lr=1e-3, layer_decay=0.5)
    values['data']['train'] = str(start[0])
    values['evaluate']['weights']['matching'] = 0.0
    return parse_recipe(values, 'recipe of a test')


def test_training_starts_at_the_original_with_a_fusion_and_larger_pictures(start):
    task = task_of(recipe_of(start, image={'size': [16, 24]}, text={'length': 12}))
    task.load(None)
    model, (original, _, _) = task.network().model, load_model(start[1])
    ids, lengths = task.tokenizer.encode(['ab cd', 'a!'])
    assert (ids.shape, model.image_tower.encoder.position.shape) == ((2, 12), (1, 25, 12))
    longer = model.text_tower(Tensor(ids), Tensor(lengths))[0].asnumpy()
    before = original.text_tower(Tensor(ids[:, :9]), Tensor(lengths))[0].asnumpy()
    np.testing.assert_allclose(longer, before, atol=1e-6)
    assert np.array_equal(model.log_scale.asnumpy(), original.log_scale.asnumpy())


def test_frozen_and_added_towers_train_through_the_recipe(start, tmp_path):
    recipe = recipe_of(start, image={'train': 'lora'}, text={'train': 'frozen'})
    assert train(recipe, tmp_path / 'run')
    before, after = load_file(start[1] / MODEL), load_file(checkpoints(tmp_path / 'run')[-1] / MODEL)
    for name, array in before.items():
        assert np.array_equal(array, after[name]) == ('.encoder.' in name), name
    assert any(name.endswith('lora_up') and array.any() for name, array in after.items())
