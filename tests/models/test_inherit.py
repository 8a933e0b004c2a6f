"""A student cut out of its teacher: the same where nothing is cut, the same function where what is cut is nothing."""
import numpy as np
import pytest
from mindspore import Tensor

from hcma.models.hcma import build_model
from hcma.models.inherit import inherited, strongest

LEVELS = {'loss': {'levels': ['sentence_global', 'word_patch', 'phrase_region']}}
DEEP = {'image': {'depth': 3}, 'text': {'depth': 2}}
PLACES = {'image': (0, 2), 'text': (1,)}


def arrays_of(model):
    return {parameter.name: parameter.asnumpy() for parameter in model.get_parameters()}


def taken_over(arrays, teacher, student, vocabulary, blocks, same_words=True):
    """The student with what it takes over, and the names of that."""
    model = build_model(student, vocabulary)
    shapes = {parameter.name: tuple(parameter.shape) for parameter in model.get_parameters()}
    taken = inherited(arrays, shapes, teacher.model, student.model, blocks, same_words)
    for parameter in model.get_parameters():
        if parameter.name in taken:
            parameter.set_data(Tensor(taken[parameter.name]))
    return model, set(taken)


@pytest.fixture(scope='module')
def teacher(make_recipe, vocabulary):
    """The recipe of a deep model, and its weights, moved from where they start."""
    recipe = make_recipe(model=DEEP, seed=3, **LEVELS)
    rng = np.random.default_rng(0)
    return recipe, {name: (array + 0.1 * rng.normal(size=array.shape)).astype(np.float32)
                    for name, array in arrays_of(build_model(recipe, vocabulary)).items()}


def test_of_the_same_size_it_is_the_chosen_blocks_of_the_teacher(teacher, make_recipe, vocabulary):
    recipe, arrays = teacher
    student = make_recipe(model={'image': {'depth': 2}, 'text': {'depth': 1}}, **LEVELS)
    model, names = taken_over(arrays, recipe, student, vocabulary, PLACES)
    found = arrays_of(model)
    assert names == found.keys() - {'log_scale'}
    for name in names:
        parts = name.split('.blocks.')
        if len(parts) == 2:
            place, rest = parts[1].split('.', 1)
            kind = 'image' if parts[0].startswith('image') else 'text'
            expected = arrays[f'{parts[0]}.blocks.{PLACES[kind][int(place)]}.{rest}']
        else:
            expected = arrays[name]
        np.testing.assert_array_equal(found[name], expected, name)


def test_neurons_that_do_nothing_are_cut_and_the_function_stays(teacher, make_recipe, make_batch, vocabulary):
    recipe, arrays = teacher
    arrays = {name: array.copy() for name, array in arrays.items()}
    for name, array in arrays.items():
        if name.endswith('mlp.down.weight'):
            array[:, 3:25:2] = 0  # 11 of 32 neurons
    size = {'mlp_width': 21}
    student = make_recipe(model={'image': {**DEEP['image'], **size}, 'text': {**DEEP['text'], **size}}, **LEVELS)
    blocks = {'image': (0, 1, 2), 'text': (0, 1)}
    narrow, _ = taken_over(arrays, recipe, student, vocabulary, blocks)
    whole, _ = taken_over(arrays, recipe, recipe, vocabulary, blocks)
    batch = make_batch(recipe)[:3]
    for one, other in zip(narrow(*batch), whole(*batch)):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-5)


def test_the_strongest_head_and_dimensions_stay_everywhere_they_are_used(teacher, make_recipe, vocabulary):
    recipe, arrays = teacher
    arrays = {name: array.copy() for name, array in arrays.items()}
    prefix = 'text_tower.encoder.blocks.0.'
    dims = [1, 2, 5, 7, 8, 10, 11, 14]
    for name, array in arrays.items():
        if name.startswith('text_tower') and name.endswith(('attention.out.weight', 'mlp.down.weight')):
            array[dims] += 9  # written most
    arrays[f'{prefix}attention.query_key_value.weight'][32 + 8:] *= 50  # values of the second head
    narrow = {'width': 8, 'heads': 1, 'depth': 1}
    student = make_recipe(model={'text': narrow, 'image': {'depth': 1}, 'word_embed_width': 4}, **LEVELS)
    model, names = taken_over(arrays, recipe, student, vocabulary, {'image': (1,), 'text': (0,)})
    found = arrays_of(model)
    embedding = 'text_tower.encoder.embedding'
    np.testing.assert_array_equal(found[embedding], arrays[embedding][:, dims])
    attention = arrays[f'{prefix}attention.query_key_value.weight']
    rows = np.concatenate([part * 16 + 8 + np.arange(8) for part in range(3)])
    np.testing.assert_array_equal(found[f'{prefix}attention.query_key_value.weight'], attention[np.ix_(rows, dims)])
    np.testing.assert_array_equal(found[f'{prefix}directions.table'], arrays[f'{prefix}directions.table'][1:])
    shared = [arrays[f'{name}.linear.weight'] for name in ('text_tower.to_word', 'image_tower.to_patch')]
    kept = strongest(np.square(shared[0]).sum(1) * np.square(shared[1]).sum(1), 4)
    np.testing.assert_array_equal(found['text_tower.to_word.linear.weight'], shared[0][np.ix_(kept, dims)])
    np.testing.assert_array_equal(found['image_tower.to_patch.linear.weight'], shared[1][kept])


def test_what_has_another_shape_or_other_words_stays_as_it_was_drawn(teacher, make_recipe, vocabulary):
    recipe, arrays = teacher
    student = make_recipe(model={'image': {'depth': 1, 'stem': 'patchify', 'patch_size': 8}, 'text': {'length': 6},
                                 'region_sizes': [2]}, **LEVELS)
    model, names = taken_over(arrays, recipe, student, vocabulary, {'image': (0,), 'text': (0,)}, same_words=False)
    assert not any('stem' in name for name in names) and 'text_tower.encoder.embedding' not in names
    found, kept = arrays_of(model), 'encoder.blocks.0.directions.table'
    np.testing.assert_array_equal(found['text_tower.encoder.position'], arrays['text_tower.encoder.position'][:, :6])
    np.testing.assert_array_equal(found[f'text_tower.{kept}'], arrays[f'text_tower.{kept}'][:, 2:-2])
    assert f'image_tower.{kept}' not in names  # a grid of 2 x 2 against 4 x 4
    position = arrays['image_tower.encoder.position'].reshape(2, 2, 2, 2, 16).mean((1, 3)).reshape(1, 4, 16)
    np.testing.assert_allclose(found['image_tower.encoder.position'], position, rtol=1e-5, atol=1e-6)
