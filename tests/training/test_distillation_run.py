"""Runs that distill learn the same staged or not, from a cache or not, resumed or not, and leave the teacher be."""
import json
import shutil

import mindspore as ms
import numpy as np
import pytest
from safetensors.numpy import load_file

from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from hcma.recipe_io import parse_recipe
from hcma.training import teacher_cache
from hcma.training.checkpoint import MODEL, STATE, checkpoint_path, checkpoints, save_checkpoint
from hcma.training.clock import Clock
from hcma.training.tasks import task_of
from hcma.training.trainer import build_step, step_of, train
from helpers.copy_run import Copy
from helpers.packs import make_pack

PATCHES = {'stem': 'patchify', 'patch_size': 8, 'depth': 0}
TAUGHT = {'features': {'word': 1.0, 'global': 1.0}, 'similarity': {'word_patch': 1.0}, 'attention': {'word_patch': 1.0},
          'interactive': 1.0, 'augmentations': 2}


def recipe_of(data, model=None, train=None, loss=None, **distill):
    return parse_recipe({
        'data': {'train': str(data)}, 'loss': loss or {},
        'model': {'preset': 'tiny', 'image': PATCHES, 'text': {'depth': 0}, **(model or {})},
        'train': {'epochs': 2, 'batch_size': 4, 'checkpoint_every': 3, 'keep_checkpoints': 9, 'mode': 'pynative',
                  **(train or {})}, **({'distill': distill} if distill else {})}, 'recipe of a test')


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return make_pack(tmp_path_factory.mktemp('data'), count=9)


@pytest.fixture(scope='module')
def teacher(tmp_path_factory):
    """A run of other sizes than the student and another tokenizer, with the weights it began with."""
    return save(tmp_path_factory.mktemp('teacher'), seed=3)


def save(run, seed=0, **sections):
    model = {'preset': 'tiny', 'image': {**PATCHES, 'size': 24}, 'text': {'length': 14, 'depth': 1}, 'embed_width': 12}
    recipe = parse_recipe({'seed': seed, 'model': model, 'train': {'epochs': 1}, **sections}, 'recipe of a teacher')
    tokenizer = train_tokenizer(['red blue cat'], 270, 14)
    save_checkpoint(checkpoint_path(run, 1), build_step(recipe, tokenizer.vocab_size, 1), recipe, tokenizer, {})
    return run


def bytes_of(run):
    return {path.relative_to(run): path.read_bytes() for path in run.rglob('*') if path.is_file()}


def ends(*runs):
    """The weights and the state after the last step of each run."""
    return [[load_file(checkpoints(run)[-1] / name) for name in (MODEL, STATE)] for run in runs]


def losses(run):
    lines = [json.loads(line) for line in (run / 'log.jsonl').read_text().splitlines()]
    return np.array([[value for key, value in line.items() if key.startswith('loss') and key != 'loss_scale']
                     for line in lines])


@pytest.fixture(scope='module')
def straight(data, teacher, tmp_path_factory):
    """The folder of the run ``live`` and of its copy after step 3, ``broken``."""
    folder = tmp_path_factory.mktemp('runs')
    before = bytes_of(teacher)
    recipe = recipe_of(data, teacher=str(teacher), **TAUGHT)
    assert train(recipe, folder / 'live', callbacks=[Copy(folder / 'live', folder / 'broken')])
    assert bytes_of(teacher) == before
    return folder


def test_a_resumed_run_is_the_uninterrupted_one_even_with_the_teacher_elsewhere(straight, data, teacher, tmp_path):
    moved = shutil.copytree(teacher, tmp_path / 'moved')
    assert train(recipe_of(data, teacher=str(moved), **TAUGHT), straight / 'broken', resume=True)
    for name in (MODEL, STATE):
        one, other = ((checkpoints(straight / run)[-1] / name).read_bytes() for run in ('live', 'broken'))
        assert one == other
    other = save(tmp_path / 'other', seed=4)
    with pytest.raises(InputError, match='other: is not the teacher that this run began with'):
        train(recipe_of(data, teacher=str(other), **TAUGHT), straight / 'live', resume=True)


def test_the_teacher_is_the_same_to_the_bit_after_training_and_is_in_no_checkpoint(data, teacher):
    task = task_of(recipe_of(data, teacher=str(teacher), **TAUGHT))
    task.load(None)
    before = {p.name: p.asnumpy().copy() for p in task.teacher.get_parameters()}
    step = step_of(task.network(), task.recipe, 10)
    for batch in task.batches.epoch(0):
        step(*task.inputs(batch, Clock()))
    assert all(np.array_equal(before[p.name], p.asnumpy()) for p in task.teacher.get_parameters())
    assert not {id(p) for p in task.teacher.get_parameters()} & {id(p) for p in step.get_parameters()}
    assert not any(cell.training for _, cell in task.teacher.cells_and_names())


def test_a_staged_step_is_the_fused_one(straight, data, teacher, tmp_path):
    recipe = recipe_of(data, teacher=str(teacher), train={'image_micro_batch': 3, 'text_micro_batch': 2}, **TAUGHT)
    assert train(recipe, tmp_path / 'staged')
    np.testing.assert_allclose(losses(tmp_path / 'staged'), losses(straight / 'live'), rtol=2e-4)


@pytest.fixture(scope='module')
def cached(data, teacher, tmp_path_factory):
    """A run that filled a cache, in folders of 5 rows; the cache; and how often the teacher ran."""
    folder = tmp_path_factory.mktemp('cached')
    recipe = recipe_of(data, teacher=str(teacher), cache=str(folder / 'cache'), **TAUGHT)
    patch = pytest.MonkeyPatch()
    patch.setattr(teacher_cache, 'ROWS', 5)
    yield train(recipe, folder / 'run') and folder
    patch.undo()


def test_a_cache_gives_the_loss_of_the_live_teacher_within_rounding_to_float16(straight, cached):
    np.testing.assert_allclose(losses(cached / 'run'), losses(straight / 'live'), rtol=2e-3)
    drawn = [json.loads(path.read_text()) for path in sorted((cached / 'cache').glob('*/*/drawn.json'))]
    assert [(one['augmentation'], *one['rows'], one['seed']) for one in drawn] == [
        (augmentation, first, min(first + 5, 9), 0) for augmentation in (0, 1) for first in (0, 5)]


def test_features_in_the_cache_are_those_of_the_teacher(cached, data, teacher):
    task, live = (task_of(recipe_of(data, teacher=str(teacher), **TAUGHT, **keys)) for keys in
                  ({'cache': str(cached / 'cache')}, {}))
    task.load(None)
    live.load(None)
    for epoch in (1, 2):  # the second is the first augmentation again
        for one, other in zip(task.batches.epoch(epoch), live.batches.epoch(epoch)):
            one, other = (which.inputs(batch, Clock()) for which, batch in ((task, one), (live, other)))
            assert len(one) == len(other) == 4 + len(task.teacher.names) + 1
            for read, made in zip(one, other):
                np.testing.assert_allclose(read.asnumpy(), made.asnumpy(), atol=1e-3)


def test_later_students_never_run_the_teacher_and_what_a_cache_lacks_is_filled_up(cached, data, teacher, monkeypatch,
                                                                                  tmp_path):
    calls, compute = [], teacher_cache.TeacherCache._compute
    monkeypatch.setattr(teacher_cache.TeacherCache, '_compute',
                        lambda *given: calls.append(given[-2:]) or compute(*given))
    cache = shutil.copytree(cached / 'cache', tmp_path / 'cache')
    recipe = recipe_of(data, model={'embed_width': 8}, teacher=str(teacher), cache=str(cache), **TAUGHT)
    task_of(recipe).load(None)
    assert calls == []
    before = bytes_of(cache)
    shutil.rmtree(cache / 'augmentation_0001' / 'rows_00000005')
    task_of(recipe).load(None)
    assert [(augmentation, rows.tolist()) for augmentation, rows in calls] == [(1, [5, 6, 7, 8])]
    assert arrays_in(bytes_of(cache)) == arrays_in(before)


def arrays_in(files):
    return {path: content for path, content in files.items() if path.suffix == '.npy'}


def test_metrics_say_what_the_cache_saved(cached):
    said = json.loads((cached / 'run' / 'metrics.json').read_text())['training']
    assert said['cache']['samples'] == 16 and said['cache']['teacher_seconds'] > 0
    saved = said['cache']['teacher_seconds'] - said['cache']['read_seconds'] - said['cache']['filled_seconds']
    assert said['cache']['saved_seconds'] == pytest.approx(saved, abs=0.02)


def test_a_cache_of_another_teacher_other_data_or_other_crops_is_refused(cached, data, teacher, tmp_path):
    cache = str(cached / 'cache')
    other, other_data = save(tmp_path / 'other', seed=4), make_pack(tmp_path / 'data', count=9, seed=1)
    with pytest.raises(InputError, match='cache: was made with another teacher, not with .*other; give another'):
        task_of(recipe_of(data, teacher=str(other), cache=cache, **TAUGHT)).load(None)
    with pytest.raises(InputError, match='cache: was made with another data, not with .*pack; give another --cache'):
        task_of(recipe_of(other_data, teacher=str(teacher), cache=cache, **TAUGHT)).load(None)
    with pytest.raises(InputError, match='cache: was made with another seed, not with seed 9'):
        task_of(recipe_of(data, teacher=str(teacher), cache=cache, seed=9, **TAUGHT)).load(None)
    with pytest.raises(InputError, match='is not empty and holds no cache.json'):
        task_of(recipe_of(data, teacher=str(teacher), cache=str(data), **TAUGHT)).load(None)


@pytest.mark.parametrize('levels, fusion, distill, message', [
    (['sentence_global'], None, {'features': {'patch': 1}}, r'distill.features.patch: is about word_patch, which the '
     r'student trains, but the teacher .* trains sentence_global only'),
    (['word_patch'], None, {'interactive': 1}, 'distill.interactive: .* trains word_patch only'),
    (['sentence_global'], {'heads': 2}, {'attention': {'fusion': 1}}, 'distill.attention.fusion: is about matching')])
def test_what_the_teacher_does_not_know_is_refused_with_both_sides(levels, fusion, distill, message, data, tmp_path):
    teacher = save(tmp_path, loss={'levels': levels})
    student = {'fusion': fusion} if fusion else {}
    with pytest.raises(InputError, match=message):
        task_of(recipe_of(data, model=student, teacher=str(teacher), **distill))


@pytest.mark.parametrize('keys, message', [
    ({'loss': {'levels': ['sentence_global']}, 'features': {'word': 1}}, 'distill.features.word: is about word_patch, '
     'but the student trains sentence_global'),
    ({'features': {'word': 0}}, 'distill.similarity: no loss against the teacher has a weight'),
    ({'train': {'drop_patches': 0.5}, 'attention': {'word_patch': 1}}, 'attention.word_patch: compares all patches'),
    ({'train': {'drop_words': 0.5}, 'features': {'word': 1}}, 'distill.features.word: compares all words'),
    ({'features': {'word': -1}}, 'distill.features.word')])
def test_what_cannot_be_is_refused_before_anything_is_read(keys, message):
    with pytest.raises(InputError, match=message):
        recipe_of('nowhere', **keys)


def test_a_teacher_must_be_named(data):
    with pytest.raises(InputError, match='distill.teacher: is missing; pass tools/distill.py --teacher RUN'):
        task_of(recipe_of(data, interactive=1))


NARROW = {'image': {**PATCHES, 'depth': 1, 'width': 8, 'heads': 1}, 'text': {'depth': 1, 'width': 8, 'heads': 1}}


def test_a_student_begins_with_weights_and_tokenizer_of_its_teacher(data, tmp_path, capsys):
    teacher = save(tmp_path, model={'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 8}})
    recipe = recipe_of(data, model=NARROW, teacher=str(teacher), start={'image': [0], 'text': [0]}, **TAUGHT)
    task = task_of(recipe)
    task.load(None)
    network = task.network()
    assert task.tokenizer.to_json() == (checkpoint_path(teacher, 1) / 'tokenizer.json').read_text(encoding='utf-8')
    taught = load_file(checkpoint_path(teacher, 1) / MODEL)['text_tower.encoder.embedding']
    mine = network.model.text_tower.encoder.embedding.asnumpy()
    assert set(map(tuple, mine.T)) <= set(map(tuple, taught.T)) and "of the student's weights begin" in \
        capsys.readouterr().err


@pytest.mark.parametrize('model, start, message', [
    (NARROW, {'image': [3], 'text': [0]}, r'start.image: there is no block 3 in the teacher .*, which has 1'),
    ({**NARROW, 'text': {'depth': 1, 'width': 32}}, {'image': [0], 'text': [0]}, 'text.width 32, the teacher .* only'),
    ({**NARROW, 'text': {'depth': 1, 'width': 8}}, {'image': [0], 'text': [0]}, '4 wide, those of the teacher .* 8'),
    (NARROW, {'image': [0]}, 'distill.start.text: names 0 blocks for a depth of 1')])
def test_a_student_that_cannot_be_cut_out_of_the_teacher_is_refused(model, start, message, data, tmp_path):
    teacher = save(tmp_path, model={'preset': 'tiny', 'image': {'stem': 'patchify', 'patch_size': 8}})
    with pytest.raises(InputError, match=message):
        task_of(recipe_of(data, model=model, teacher=str(teacher), start=start, **TAUGHT))


def test_a_teacher_computes_in_its_own_types_and_one_that_this_device_lacks_is_refused(data, tmp_path):
    task = task_of(recipe_of(data, teacher=str(save(tmp_path / 'short', precision={'image': 'fp16'})), **TAUGHT))
    task.load(None)
    model = task.teacher.model
    assert model.image_tower.to_global.linear.compute == ms.float16
    assert model.text_tower.to_sentence.linear.compute == ms.float32
    rewritten = checkpoint_path(tmp_path / 'short', 1) / 'recipe.yaml'
    rewritten.write_text(rewritten.read_text().replace('fp16', 'bf16'))
    with pytest.raises(InputError, match='the teacher .*short: precision.image: MindSpore has no bf16 products on CPU'):
        task_of(recipe_of(data, teacher=str(tmp_path / 'short'), **TAUGHT)).load(None)
