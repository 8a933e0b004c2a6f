"""The plan counts what the model has, to the parameter; says fits exactly where it does; and its advice holds."""
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hcma.bench.memory_recipes import REPORTED
from hcma.models.hcma import build_model
from hcma.models.layers import ACTIVATIONS
from hcma.models.windows import patch_windows, word_windows
from hcma.plan.advice import options
from hcma.plan.levels import image_rows, squares, text_rows, windows
from hcma.plan.memory import GIB, Setting, needs, setting_of, usable
from hcma.plan.parameters import parts
from hcma.recipe_io import dump_recipe, load_recipe, parse_recipe

ROOT = Path(__file__).parents[2]
LARGE = ROOT / 'recipes' / 'configs' / 'large_lora.yaml'
SCENES = ROOT / 'recipes' / 'configs' / 'scenes.yaml'
ALL_LEVELS = ['word_patch', 'phrase_region', 'sentence_global']
MODELS = {
    'tiny': {'model': {'preset': 'tiny'}},
    'small': {'model': {'preset': 'small'}},
    'everything': {'model': {'preset': 'small', 'image': {'depth': 2, 'pool': 'class', 'size': [32, 48]},
                             'fusion': {'depth': 2}},
                   'loss': {'levels': ALL_LEVELS, 'balance': 'uncertainty'}},
    'additions': {'model': {'preset': 'tiny', 'image': {'train': 'lora', 'depth': 2}, 'text': {'train': 'frozen'},
                            'lora': {'rank': 3}}, 'loss': {'temperature': {'learnable': False}}},
    'siglip': {'model': {'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 4, 'patch_bias': True,
                                                     'pool': 'attention'},
                         'text': {'pool': 'last', 'padding': 1, 'projection_bias': True, 'begin': False}}},
    'bert': {'model': {'preset': 'tiny', 'text': {'norm': 'post', 'pool': 'class'}}},
    'clip, two blocks each': {'model': {'preset': 'vit_b32', 'image': {'depth': 2}, 'text': {'depth': 2}}},
}


def recipe_of(train=None, **sections):
    return parse_recipe({'train': {'epochs': 1, **(train or {})}, **sections}, 'recipe of a test')


@pytest.mark.parametrize('name', MODELS)
def test_counts_of_parameters_are_those_of_the_built_model(name):
    recipe, vocabulary = recipe_of(**MODELS[name]), 1234
    model, counts = build_model(recipe, vocabulary), parts(recipe, vocabulary)
    trained = [parameter.size for parameter in model.trainable_params()]
    assert sum(part.total for part in counts) == sum(parameter.size for parameter in model.get_parameters())
    assert sum(part.trained for part in counts) == sum(trained)
    assert max(part.largest for part in counts) == max(trained)


def test_counts_of_phrases_and_regions_are_those_of_the_windows():
    for sizes in ((2,), (3, 5)):
        assert windows(sizes, 9) == len(word_windows(9, sizes))
        for grid in ((6, 6), (5, 7)):
            assert squares(sizes, grid) == len(patch_windows(grid, sizes))


def test_boxes_and_chunks_take_what_their_numbers_say():
    def held(**model):
        recipe = recipe_of(model={'preset': 'small', **model}, loss={'levels': ALL_LEVELS})
        return needs(recipe, Setting())

    given, windowed = {'regions': 'boxes', 'phrases': 'chunks'}, held()
    recipe = recipe_of(model={**given, 'max_boxes': 5, 'max_chunks': 7}, loss={'levels': ALL_LEVELS})
    assert (image_rows(recipe.model, 'phrase_region'), text_rows(recipe.model, 'phrase_region')) == (5, 7)
    few, many = (held(**given, max_boxes=number, max_chunks=number) for number in (4, 64))
    assert few.features < windowed.features < many.features and few.loss < windowed.loss < many.loss
    assert few.image < many.image and few.text < many.text and few.weights == windowed.weights


@pytest.mark.parametrize('device', ['cpu', 'ascend'])
def test_every_activation_is_counted_and_relu_holds_the_least(device):
    held = {name: needs(recipe_of(model={'preset': 'tiny', 'text': {'activation': name}}), Setting(device=device)).total
            for name in ACTIVATIONS}
    assert min(held, key=held.get) == 'relu'


def test_it_fits_to_the_byte():
    recipe = recipe_of(model={'preset': 'vit_b32'})
    for setting in (Setting(), Setting(device='cpu')):
        found, high = needs(recipe, setting), 2.0 ** 50
        low = high / 2
        while usable(setting, low) > found.total:
            low /= 2
        while high - low > 2:
            middle = (low + high) / 2
            low, high = (low, middle) if found.fits(usable(setting, middle)) else (middle, high)
        assert usable(setting, high + 2) >= found.total > usable(setting, low - 2)


def test_what_is_said_to_save_saves_what_it_should():
    recipe, plain = recipe_of(model={'preset': 'vit_b32'}), Setting()
    base, trained = needs(recipe, plain), sum(part.trained for part in parts(recipe))
    assert (base.weights, base.gradients, base.optimizer) == (4 * trained, 4 * trained, 8 * trained)
    largest = max(part.largest for part in parts(recipe))
    for devices in (1, 2, 8):  # each parameter's moments are on one device
        kept = 8 * max(trained / devices, largest)
        assert needs(recipe, replace(plain, optimizer='sharded', devices=devices)).optimizer == kept
        of_recipe = recipe_of({'shard_optimizer': True}, model={'preset': 'vit_b32'})
        assert needs(of_recipe, setting_of(of_recipe, devices=devices)).optimizer == kept
    half = replace(plain, compute='bf16')
    assert needs(recipe, half).weights + needs(recipe, half).masters == 6 * trained
    assert needs(recipe, replace(half, masters=False)).total == needs(recipe, half).total - 6 * trained - (
        needs(recipe, half).workspace - needs(recipe, replace(half, masters=False)).workspace)
    host = needs(recipe, replace(half, optimizer='host'))
    assert (host.weights, host.masters, host.gradients, host.optimizer) == (2 * trained, 0, 2 * trained, 0)


def test_the_recipes_precision_halves_products_and_keeps_weights_in_float32():
    types = dict.fromkeys(('image', 'text', 'loss'), 'bf16')
    model = {'preset': 'vit_b32', 'fusion': {'heads': 8}}
    full, short, image = (needs(recipe_of(model=model, precision=precision), Setting())
                          for precision in ({}, types, {'image': 'auto'}))
    assert (short.masters, short.gradients, short.optimizer) == (0, full.gradients, full.optimizer)
    assert full.weights < short.weights < 1.5 * full.weights  # copies of what products read
    assert short.image < 0.6 * full.image and short.text < 0.6 * full.text and short.loss < full.loss
    assert (image.image, image.text, image.loss) == (short.image, full.text, full.loss)
    assert needs(recipe_of(model=model, precision=types), Setting(compute='fp32')) == full


def changed(preset='vit_b32', **model):
    return needs(recipe_of(model={'preset': preset, **model}), Setting())


def test_recompute_frozen_towers_and_micro_batches_hold_less_and_less():
    kept, third = changed(), changed(image={'recompute': 3})
    blocks, frozen = changed(image={'recompute': 'blocks'}), changed(image={'train': 'frozen'})
    assert kept.image > third.image > blocks.image > frozen.image and kept.text == blocks.text == frozen.text
    lora = changed(image={'train': 'lora'})
    assert lora.image > kept.image and lora.optimizer < kept.optimizer and lora.weights > kept.weights
    parts_of = needs(recipe_of(model={'preset': 'vit_b32'}), Setting(image_micro_batch=16, text_micro_batch=16))
    assert parts_of.text == kept.text / 4 and parts_of.image == 0  # one encoder at a time, the larger one counts


@pytest.mark.parametrize('gib, batch', [(16, 64), (6, 64), (2, 64), (1, 512)])
def test_advice_holds_when_it_is_followed(gib, batch, tmp_path):
    recipe = recipe_of({'batch_size': batch}, model={'preset': 'vit_b16'})
    (tmp_path / 'recipe.yaml').write_text(dump_recipe(recipe))
    found = options(recipe, setting_of(recipe), gib * GIB)
    assert found and not needs(recipe, setting_of(recipe)).fits(usable(Setting(), gib * GIB))
    for option in found:
        keys = [change for change in option.changes if '=' in change and '_micro_' not in change]
        followed = needs(load_recipe(tmp_path / 'recipe.yaml', keys), option.setting)
        assert followed.total == option.needs.total and followed.fits(usable(Setting(), gib * GIB))
        assert all(f'--{key} {getattr(option.setting, key)}' in option.changes for key in ('compute', 'optimizer')
                   if getattr(option.setting, key) != getattr(Setting(), key))


def test_the_documented_predictions_are_the_formulas_and_within_a_fifth_of_the_measured_peaks():
    table = dict(re.findall(r'^\| (.+?) \| ([\d,]+ \| [\d,]+) \|', (ROOT / 'docs' / 'planning.md').read_text(), re.M))
    assert table.keys() == REPORTED.keys()
    for name, values in REPORTED.items():
        planned, measured = (int(number.replace(',', '')) for number in table[name].split(' | '))
        recipe = parse_recipe(values, name)
        assert planned == round(needs(recipe, Setting(device='cpu')).total / 2 ** 20)
        assert abs(planned / measured - 1) < 0.2


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    """What tools/plan.py makes of good and bad arguments, by name; one process runs them all."""
    file = tmp_path_factory.mktemp('plan') / 'plan.json'
    calls = {'fits': [LARGE, '--compute', 'bf16', '--optimizer', 'host', '--memory', '64', '--json', file],
             'does not fit': [LARGE, '--set', 'model.image.train=all'], 'cpu': [SCENES, '--device', 'cpu'],
             **{name: arguments for name, (arguments, _) in REFUSED.items()}}
    done = subprocess.run([sys.executable, ROOT / 'tests' / 'helpers' / 'run_tool.py', ROOT / 'tools' / 'plan.py'],
                          input=json.dumps([list(map(str, call)) for call in calls.values()]), capture_output=True,
                          text=True, check=True)
    return {**dict(zip(calls, json.loads(done.stdout))), 'json': json.loads(file.read_text())}


REFUSED = {
    'masters in fp32': ([SCENES, '--no-masters'], '--no-masters: masters are for 16-bit weights'),
    'no memory': ([SCENES, '--memory', '0'], '--memory 0.0: give the GiB of one device'),
    'cpu in bf16': ([SCENES, '--device', 'cpu', '--compute', 'bf16'], '--device cpu: one process in fp32'),
    'questions': ([SCENES.with_name('vqa_scenes.yaml'), '--set', 'vqa.checkpoint=x'], 'has a section vqa; plan the'),
    'no such folder': ([SCENES, '--json', 'nowhere/plan.json'], '--json nowhere/plan.json: cannot be written'),
    'bad recipe': ([SCENES, '--set', 'model.lora.rnak=3'], "model.lora.rnak: unknown key"),
}


def test_ten_billion_parameters_fit_one_card_of_64_gigabytes(outcomes):
    assert outcomes['fits']['code'] == 0 and '\nfits: ' in outcomes['fits']['out']
    plan = outcomes['json']
    assert plan['fits'] and plan['parameters'] > 1e10 and plan['bytes']['total'] < plan['usable'] < 64 * GIB
    assert plan['bytes']['total'] == sum(value for name, value in plan['bytes'].items() if name != 'total')


def test_what_does_not_fit_is_said_with_what_would(outcomes):
    out = outcomes['does not fit']['out']
    assert '\ndoes not fit: ' in out and 'model.image.train=lora' in out.split('it would fit with')[1]
    assert '\nfits: ' in outcomes['cpu']['out'] and not any(
        outcomes[name]['mindspore'] for name in ('fits', 'does not fit', 'cpu'))


@pytest.mark.parametrize('name', REFUSED)
def test_mistakes_are_refused_in_one_sentence(name, outcomes):
    result = outcomes[name]
    assert (result['code'], result['mindspore']) == (2, False) and REFUSED[name][1] in result['err']
    assert result['err'].startswith('error: ') and result['err'].count('\n') == 1
