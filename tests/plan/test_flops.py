"""The operations of a step are those that are known of CLIP's shapes, and follow what a recipe leaves out."""
import pytest

from hcma.plan.flops import forward_flops, step_flops
from hcma.recipe_io import parse_recipe


def flops(preset='vit_b32', batch=8, **sections):
    train = {'epochs': 1, 'batch_size': batch, **sections.pop('train', {})}
    return step_flops(parse_recipe({'model': {'preset': preset, **sections.pop('model', {})}, 'train': train,
                                    **sections}, 'a test'))


@pytest.mark.parametrize('preset, image, text', [('vit_b32', 4.41, 2.98), ('vit_b16', 17.6, 2.98)])
def test_encoders_take_what_is_known_of_clip(preset, image, text):
    found = flops(preset, loss={'levels': ['sentence_global']})
    giga = 1e9 * 8 * 2 * 3  # batch, two operations for a product, three passes
    assert found['image'] / giga == pytest.approx(image, rel=0.02)
    assert found['text'] / giga == pytest.approx(text, rel=0.03)


def test_a_frozen_encoder_has_no_backward_pass():
    frozen = flops(model={'image': {'train': 'frozen'}}, loss={'levels': ['sentence_global']})
    assert 3 * frozen['image'] == flops(loss={'levels': ['sentence_global']})['image']


def test_scores_grow_with_the_square_of_the_batch_and_dropped_patches_cost_nothing():
    one, four = flops(batch=8), flops(batch=32)
    assert four['image'] == 4 * one['image'] and four['loss'] == 16 * one['loss']
    half = flops('vit_b16', train={'drop_patches': 0.5})['image']
    assert 0.45 < half / flops('vit_b16')['image'] < 0.5


def test_wrong_texts_are_encoded_too():
    assert flops(data={'negatives': 'data'})['text'] == 2 * flops()['text']


def test_encoding_is_a_third_of_training_and_sees_whole_pictures():
    train = {'epochs': 1, 'batch_size': 8, 'drop_patches': 0.5}
    recipe = parse_recipe({'model': {'preset': 'vit_b16'}, 'train': train}, 'a test')
    whole = flops('vit_b16')
    assert forward_flops(recipe) == {name: whole[name] / 24 for name in ('image', 'text')}
