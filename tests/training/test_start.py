"""Runs that start from another's weights, and keep some of them: what is taken, what stays, what is refused."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hcma.errors import InputError
from hcma.models.hcma import build_model
from hcma.models.lora import is_addition, merged
from hcma.models.positions import resize_patch_positions, resize_word_positions
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import MODEL, STATE, TOKENIZER, checkpoint_path, checkpoints, load_model, write_checkpoint
from hcma.training.tasks import task_of
from hcma.training.trainer import train
from helpers.copy_run import Copy
from helpers.packs import make_pack
from helpers.questions import save_aligned

SMALL = {'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 8, 'directions': False}, 'text': {'depth': 0}}


def recipe_of(data, image=None, text=None, **model):
    towers = {'image': {**SMALL['image'], **(image or {})}, 'text': {**SMALL['text'], **(text or {})}}
    return parse_recipe({'data': {'train': str(data)}, 'loss': {'levels': ['sentence_global']},
                         'model': {**SMALL, **towers, **model},
                         'train': {'epochs': 1, 'batch_size': 4, 'checkpoint_every': 2, 'keep_checkpoints': 9,
                                   'mode': 'pynative'}}, 'recipe of a test')


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return make_pack(tmp_path_factory.mktemp('data'), count=18)


@pytest.fixture(scope='module')
def aligned(data, tmp_path_factory):
    return save_aligned(tmp_path_factory.mktemp('aligned'), recipe_of(data))


def arrays_of(run):
    return load_file(checkpoints(run)[-1] / MODEL)


def started(recipe):
    """The model that a new run of ``recipe`` begins with."""
    task = task_of(recipe)
    task.load(None)
    return {p.name: p.asnumpy() for p in task.network().model.get_parameters()}, task


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(scope='module')
def run(data, aligned, tmp_path_factory):
    """The folder with a run ``straight`` that trains additions from the weights of ``aligned``, and its copy."""
    folder = tmp_path_factory.mktemp('runs')
    recipe = recipe_of(data, {'train': 'lora', 'recompute': 'blocks'}, {'train': 'frozen'}, weights=str(aligned))
    assert train(recipe, folder / 'straight', callbacks=[Copy(folder / 'straight', folder / 'resumed')])
    return folder


def test_what_is_frozen_keeps_the_weights_it_started_from_to_the_bit(run, aligned):
    start, end = arrays_of(aligned), arrays_of(run / 'straight')
    for name, array in start.items():
        assert np.array_equal(array, end[name]) == ('.encoder.' in name), name
    additions = {name for name in end if is_addition(name)}
    assert end.keys() == start.keys() | additions and all(end[name].any() for name in additions)
    moments = {name for name in load_file(checkpoints(run / 'straight')[-1] / STATE) if name.startswith('moment1.')}
    assert {name.removeprefix('moment1.') for name in moments} == {n for n in start if '.encoder.' not in n} | additions


def test_resumed_it_ends_as_if_it_had_never_stopped_even_without_the_weights(run, data, aligned):
    recipe = recipe_of(data, {'train': 'lora'}, {'train': 'frozen'}, weights='moved away')  # nor recompute
    assert train(recipe, run / 'resumed', resume=True)
    for name in (MODEL, STATE):
        straight, resumed = ((checkpoints(run / folder)[-1] / name).read_bytes() for folder in ('straight', 'resumed'))
        assert straight == resumed
    loaded = {p.name: p.asnumpy() for p in load_model(run / 'resumed')[0].get_parameters()}
    assert same(loaded, arrays_of(run / 'resumed'))


def test_weights_and_tokenizer_are_taken_and_nothing_else(data, aligned):
    taken, task = started(recipe_of(data, weights=str(checkpoint_path(aligned, 1))))
    assert same(taken, arrays_of(aligned))
    assert task.tokenizer.to_json() == (checkpoint_path(aligned, 1) / TOKENIZER).read_text(encoding='utf-8')


def test_additions_of_the_weights_are_merged_and_those_of_the_new_run_start_at_zero(run, data):
    stored = arrays_of(run / 'straight')
    plain = merged(stored, 2.0)
    assert same(started(recipe_of(data, weights=str(run / 'straight')))[0], plain)
    again, _ = started(recipe_of(data, {'train': 'lora'}, lora={'rank': 2}, weights=str(run / 'straight')))
    assert same({name: array for name, array in again.items() if not is_addition(name)}, plain)
    assert not any(array.any() for name, array in again.items() if name.endswith('lora_up'))


@pytest.mark.parametrize('model, message', [
    ({'embed_width': 8}, r'to_global.linear.weight has shape \(16, 16\), the model wants \(8, 16\); text_tower.to_sen'),
    ({'image': {'depth': 0}}, r'blocks.0.attention.* is not in this model; .* and \d+ more'),
    ({'weights': 'nowhere'}, 'nowhere: neither a checkpoint nor a run with one')])
def test_weights_that_do_not_fit_are_refused_with_a_list(model, message, data, aligned):
    with pytest.raises(InputError, match=message):
        started(recipe_of(data, **{'weights': str(aligned), **model}))


def test_what_a_recipe_asks_for_in_vain_is_said_once(data, tmp_path, capsys):
    assert train(recipe_of(data, {'train': 'frozen', 'depth': 0}, {'recompute': 'blocks'}), tmp_path / 'run')
    errors = capsys.readouterr().err
    assert errors.count('note: recompute saves no memory on CPU') == 1
    assert errors.count('note: model.image.train is frozen, and the weights that it keeps are random') == 1


def test_levels_and_a_fusion_that_are_new_begin_anew_and_known_temperatures_are_kept(data, tmp_path, capsys):
    def with_levels(levels, **model):
        recipe = recipe_of(data, **model)
        return recipe.model_copy(update={'loss': recipe.loss.model_copy(update={'levels': levels})})

    aligned = save_aligned(tmp_path / 'aligned', recipe_of(data))
    flat = arrays_of(aligned)
    flat['log_scale'][0] = 1.5
    save_file(flat, checkpoints(aligned)[-1] / MODEL)
    recipe = with_levels(('word_patch', 'sentence_global'), weights=str(aligned), fusion={'heads': 2})
    taken, task = started(recipe)
    assert all(np.array_equal(taken[name], flat[name]) for name in flat if name != 'log_scale')
    np.testing.assert_allclose(taken['log_scale'], [np.log(1 / 0.07), 1.5], rtol=1e-6)
    assert 'note: fusion, image_tower.to_patch, text_tower.to_word begun anew' in capsys.readouterr().err

    fresh = {p.name: p.asnumpy() for p in build_model(recipe, task.tokenizer.vocab_size).get_parameters()}
    assert all(np.array_equal(taken[name], fresh[name]) for name in taken.keys() - flat.keys())
    write_checkpoint(tmp_path / 'levels', taken, recipe, task.tokenizer)
    back, _ = started(recipe_of(data, weights=str(tmp_path / 'levels')))
    assert same(back, flat) and 'fusion, image_tower.to_patch, text_tower.to_word left out' in capsys.readouterr().err


def test_positions_are_resized_to_larger_pictures_and_other_lengths(data, aligned):
    flat = arrays_of(aligned)
    for size, grid, length in ((32, (4, 4), 12), ([8, 24], (1, 3), 5)):
        recipe = recipe_of(data, {'size': size}, {'length': length}, weights=str(aligned))
        taken, _ = started(recipe)
        assert np.array_equal(taken['image_tower.encoder.position'],
                              resize_patch_positions(flat['image_tower.encoder.position'], (2, 2), grid))
        assert np.array_equal(taken['text_tower.encoder.position'],
                              resize_word_positions(flat['text_tower.encoder.position'], length))
