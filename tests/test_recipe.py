"""A recipe that cannot work is refused in one sentence before anything is loaded; one that can reads back equal."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hcma.errors import InputError
from hcma.presets import PRESETS
from hcma.recipe_io import dump_recipe, load_recipe, parse_recipe

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / 'recipes' / 'configs').glob('*.yaml'))
SCENES = ROOT / 'recipes' / 'configs' / 'scenes.yaml'

# What --set says, and what the refusal must say: the key's path, the value, what is allowed, the nearest spelling.
WRONG = {
    'unknown key': ('train.epoch=3', ["train.epoch: unknown key", "value: 3", "did you mean 'epochs'?", 'batch_size']),
    'unknown section': ('losses.levels=[word_patch]', ['losses: unknown key', "did you mean 'loss'?", 'device, seed']),
    'unknown key deep down': ('model.image.widht=8', ['model.image.widht: unknown', "did you mean 'width'?", 'depth']),
    'text for a whole number': ('train.epochs=many', ['train.epochs:', 'valid integer', "is 'many'"]),
    'fraction for a whole number': ('train.epochs=2.5', ['train.epochs:', 'valid integer', 'is 2.5']),
    'truth for a whole number': ('model.text.depth=true', ['model.text.depth:', 'valid integer', 'is True']),
    'number for a truth': ('data.flip=1', ['data.flip:', 'valid boolean', 'is 1']),
    'value for a section': ('model.image=5', ['model.image:', 'valid dictionary', 'is 5']),
    'number for a list': ('model.image.stem_channels=5', ['model.image.stem_channels:', 'valid tuple', 'is 5']),
    'one number for a range': ('data.crop_area=[0.5]', ['data.crop_area', 'missing']),
    'range upside down': ('data.crop_area=[0.9, 0.5]', ['data.crop_area:', '0 < low <= high', 'is [0.9, 0.5]']),
    'unknown type': ('precision.image=fp8', ['precision.image:', "'fp32', 'fp16', 'bf16' or 'auto'", "is 'fp8'"]),
    'unknown answer to trouble': ('stability.loss_spike=rolback', ['stability.loss_spike:', "'rollback' or 'stop'",
                                                                   "did you mean 'rollback'?"]),
    'unknown preset': ('model.preset=smal', ['model.preset:', "'tiny', 'small'", "is 'smal'", "did you mean 'small'?"]),
    'list for a preset': ('model.preset=[tiny]', ['model.preset:', "'tiny', 'small'"]),
    'unknown level': ('loss.levels=[word_pach]', ['loss.levels.0:', "'word_patch' or 'phrase_region'",
                                                  "is 'word_pach'", "did you mean 'word_patch'?"]),
    'level twice': ('loss.levels=[word_patch, word_patch]', ['loss.levels:', 'at least one level, each once']),
    'no level': ('loss.levels=[]', ['loss.levels:', 'at least one level, each once', 'is []']),
    'patch that does not divide': ('model.image={stem: patchify, patch_size: 7}',
                                   ['model.image.patch_size: 7 does not divide the image size 48']),
    'patch below zero': ('model.image={stem: patchify, patch_size: -4}', ['model.image.patch_size:', 'greater', '-4']),
    'size of one side': ('model.image.size=[48]', ['model.image.size: must be', '[height, width]', 'is [48]']),
    'stem that does not divide': ('model.image.size=20', ['model.image.patch_size: 8 does not divide', 'size 20']),
    'stem without width': ('model.image.stem_channels=[0, 8]', ['model.image.stem_channels.0:', 'greater', 'is 0']),
    'heads that do not divide': ('model.text.heads=5', ['model.text.heads: 5 does not divide the width 64']),
    'no heads': ('model.image.heads=0', ['model.image.heads:', 'greater than or equal to 1', 'is 0']),
    'word layer too deep': ('model.text.word_layer=2', ['model.text.word_layer: 2 is beyond the depth 1']),
    'unknown way to train': ('model.image.train=lorra', ['model.image.train:', "'all', 'lora' or 'frozen'", "'lora'?"]),
    'rank of zero': ('model.lora.rank=0', ['model.lora.rank:', 'greater than or equal to 1', 'is 0']),
    'recompute by halves': ('model.text.recompute=0.5', ['model.text.recompute: must be off, blocks, or a number N',
                                                         'but it is 0.5']),
    'recompute no block': ('model.image.recompute=0', ['model.image.recompute: must be off, blocks, or a number N']),
    'recompute on': ('model.image.recompute=on', ['model.image.recompute: must be off, blocks', 'is True']),
    'batch of one': ('train.batch_size=1', ['train.batch_size:', 'greater than or equal to 2', 'is 1']),
    'pictures of a part beyond the batch': (['train.batch_size=8', 'train.image_micro_batch=9'],
                                            ['train.image_micro_batch: 9 is more than the batch_size 8']),
    'texts of a part beyond the batch': (['train.batch_size=8', 'train.text_micro_batch=64'],
                                         ['train.text_micro_batch: 64 is more than the batch_size 8']),
    'empty parts': ('train.text_micro_batch=0', ['train.text_micro_batch:', 'greater than or equal to 1', 'is 0']),
    'staged questions': (['train.image_micro_batch=2', 'vqa={checkpoint: x}'],
                         ['train.image_micro_batch, text_micro_batch, plan,', 'are for alignment', 'leave them out']),
    'smoothed sigmoid': ('loss={contrast: sigmoid, label_smoothing: 0.1}',
                         ['loss.label_smoothing: is for a softmax', 'leave it out']),
    'smoothed to nothing': ('loss.label_smoothing=1', ['loss.label_smoothing:', 'less than 1', 'is 1']),
    'endless rate': ('train.lr=.inf', ['train.lr:', 'finite number', 'is inf']),
    'rate that is no number': ('train.lr=.nan', ['train.lr:', 'finite number', 'is nan']),
    'rate of zero': ('train.lr=0', ['train.lr:', 'greater than 0', 'is 0']),
    'beta of one': ('train.betas=[0.9, 1]', ['train.betas:', 'from 0 to below 1']),
    'temperature below its minimum': ('loss.temperature.initial=0.005', ['loss.temperature.initial: 0.005 is below']),
    'last without padding': ('model.text.pool=last', ['model.text.pool: last is the last position']),
    'words of a SigLIP': (['train.drop_words=0.5', 'model.text.begin=false'], ['train.drop_words: this model reads']),
    'temperature too warm': ('loss.temperature.initial=2', ['loss.temperature.initial:', 'less than or equal to 1']),
    'weight of an untrained level': ('loss={levels: [sentence_global], weights: {word_patch: 2}}',
                                     ['loss.weights: word_patch is not among the levels sentence_global']),
    'weight below zero': ('loss.weights={word_patch: -1}', ['loss.weights: word_patch is -1', 'from 0 up']),
    'misspelt level of a weight': ('loss.weights={word_pach: 1}', ["loss.weights.word_pach", "mean 'word_patch'?"]),
    'weights that are learned': ('loss={balance: uncertainty, weights: {word_patch: 2}}',
                                 ['loss.weights:', 'give one or the other']),
    'weight without a fusion': ('loss.weights={matching: 1}', ['loss.weights: matching is not', 'needs model.fusion']),
    'heads of a fusion': ('model.fusion={heads: 5}', ['model.fusion.heads: 5 does not divide the text width 64']),
    'phrase longer than texts': (['loss.levels=[phrase_region]', 'model.phrase_lengths=[3, 21]'],
                                 ['model.phrase_lengths: 21 is more than the 20 words', 'model.text.length']),
    'region larger than pictures': (['loss.levels=[phrase_region]', 'model.region_sizes=[7]'],
                                    ['model.region_sizes: 7 is more than the 6 patches along a side']),
    'device': ('device=cpu', ['device:', "'CPU' or 'Ascend'", "is 'cpu'"]),
    '--set without a value': ('train.epochs', ['--set train.epochs: write it as section.key=value']),
    '--set below a value': ('train.epochs.x=3', ['--set train.epochs.x=3: epochs is a value, not a section']),
    'no data': ('seed=1', ['data.train: is missing', 'tools/prepare.py']),
    'data that is not there': ('data.train=nowhere', ['nowhere: not a packed data set', 'tools/prepare.py']),
    'negatives the data lacks': (['data.train={seven}', 'train.batch_size=7', 'data.negatives=data'],
                                 ['data.negatives: is data, but no row of ', 'perturb']),
    'twins the data lacks': (['data.train={seven}', 'train.batch_size=7', 'data.twins=true'],
                             ['data.twins: is true, but no two rows of ']),
    'batch larger than the data': ('data.train={seven}', ['train.batch_size: 64 is more than the 7 pairs of ',
                                                          'a batch of at most 7']),
}
# Evaluation weights are checked against the levels of the loss, in another section.
WRONG['evaluation weight of an untrained level'] = (
    ['loss.levels=[sentence_global]', 'evaluate.weights={word_patch: 1}'],
    ['evaluate.weights: word_patch is not among the levels sentence_global'])

FILES = {
    'key given twice': ('train:\n  epochs: 1\n  lr: 1e-3\n  epochs: 2\n', ['line 4', "'epochs' is given twice"]),
    'section given twice': ('train: {epochs: 1}\ntrain: {epochs: 1}\n', ['line 2', "'train' is given twice"]),
    'missing key': ('name: x\n', ['train: is missing']),
    'missing key of a section': ('train: {lr: 1e-3}\n', ['train.epochs: is missing']),
    'list': ('- 1\n', ['a recipe is a mapping']),
    'broken YAML': ('train: {epochs: 1\nname: x\n', ['line 2', 'not valid YAML']),
    'not text': (b'\xff\xd8\xff\xe0', ['cannot be read', 'UTF-8']),
}


@pytest.fixture(scope='module')
def refusals(tmp_path_factory):
    """What tools/train.py makes of every wrong recipe, by name; one process runs them all."""
    folder = tmp_path_factory.mktemp('recipes')
    (folder / 'seven').mkdir()
    meta = {'format': 2, 'images': 7, 'negatives': 0, 'twins': 0, 'fingerprint': '', 'shards': []}
    (folder / 'seven' / 'meta.json').write_text(json.dumps(meta))
    arguments = {}
    for name, (overrides, _) in WRONG.items():
        overrides = [overrides] if isinstance(overrides, str) else overrides
        sets = [part for text in overrides for part in ('--set', text.replace('{seven}', str(folder / 'seven')))]
        arguments[name] = [str(SCENES), *sets, '--out', str(folder / 'run')]
    for number, (name, (content, _)) in enumerate(FILES.items()):
        path = folder / f'{number}.yaml'
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        arguments[name] = [str(path), '--out', str(folder / 'run')]
    arguments['missing file'] = [str(SCENES.with_name('scene.yaml')), '--out', str(folder / 'run')]
    done = subprocess.run([sys.executable, ROOT / 'tests' / 'helpers' / 'run_tool.py', ROOT / 'tools' / 'train.py'],
                          input=json.dumps(list(arguments.values())), capture_output=True, text=True, check=True)
    assert not (folder / 'run').exists()
    return dict(zip(arguments, json.loads(done.stdout)))


@pytest.mark.parametrize('name', [*WRONG, *FILES])
def test_the_tool_refuses_in_one_sentence_before_mindspore_is_loaded(name, refusals):
    result = refusals[name]
    assert (result['code'], result['out'], result['mindspore']) == (2, '', False), result
    assert result['err'].startswith('error: ') and result['err'].count('\n') == 1
    for part in {**WRONG, **FILES}[name][1]:
        assert part in result['err']


def test_a_missing_file_is_refused_with_the_nearest_name(refusals):
    result = refusals['missing file']
    assert (result['code'], result['mindspore']) == (2, False)
    assert 'scene.yaml: no such recipe; did you mean' in result['err'] and str(SCENES) in result['err']


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_every_recipe_of_the_project_loads_and_reads_back_equal(path, tmp_path):
    recipe = load_recipe(path)
    (tmp_path / 'again.yaml').write_text(dump_recipe(recipe), encoding='utf-8')
    assert load_recipe(tmp_path / 'again.yaml') == recipe


@pytest.mark.parametrize('preset', PRESETS)
def test_a_dumped_recipe_reads_back_equal_with_every_kind_of_value(preset, tmp_path):
    overrides = [f'model.preset={preset}', 'train.eps=1e-9', 'train.lr=3E-3', 'data.flip=true',
                 'loss.weights={word_patch: 0.1}', 'evaluate.weights={sentence_global: 2}', 'model.text.word_layer=0',
                 'data.train=数据/a b', 'train.betas=[0.5, 0]', 'loss.temperature.learnable=false']
    recipe = load_recipe(SCENES, overrides)
    (tmp_path / 'again.yaml').write_text(dump_recipe(recipe), encoding='utf-8')
    assert load_recipe(tmp_path / 'again.yaml') == recipe
    assert (recipe.train.eps, recipe.train.lr, recipe.loss.weight('word_patch')) == (1e-9, 3e-3, 0.1)
    assert dump_recipe(load_recipe(tmp_path / 'again.yaml')) == dump_recipe(recipe)


def test_values_below_a_preset_override_it_and_leave_the_rest():
    recipe = parse_recipe({'model': {'preset': 'vit_b16', 'text': {'depth': 3}}, 'train': {'epochs': 1}}, 'test')
    assert (recipe.model.text.depth, recipe.model.text.width, recipe.model.image.grid) == (3, 512, (14, 14))


def test_a_size_may_have_two_sides_and_a_square_has_one():
    for size, kept, grid in ([32, 48], (32, 48), (4, 6)), ([48, 48], 48, (6, 6)):
        image = load_recipe(SCENES, [f'model.image.size={size}']).model.image
        assert (image.size, image.grid, image.patches) == (kept, grid, grid[0] * grid[1])


def test_a_recipe_cannot_be_changed_after_it_was_checked():
    recipe = load_recipe(SCENES)
    with pytest.raises(ValueError, match='frozen'):
        recipe.train.lr = 5


def test_the_last_of_several_overrides_wins():
    assert load_recipe(SCENES, ['train.epochs=3', 'train.epochs=4']).train.epochs == 4


def test_a_folder_in_place_of_a_recipe_is_refused(tmp_path):
    with pytest.raises(InputError, match='cannot be read'):
        load_recipe(tmp_path)
