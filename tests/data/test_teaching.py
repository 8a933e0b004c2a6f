"""A teacher reads the crop and caption that it would read by itself, and changes nothing of what its student reads."""
import numpy as np
import pytest

from hcma.data.pack import read_captions
from hcma.data.pipeline import TrainingBatches
from hcma.data.teaching import TeacherInputs, TeacherPlaces
from hcma.data.tokenizer import train_tokenizer
from helpers.packs import make_pack

PAIRS, BATCH = 13, 4
CROPS = {'crop_area': [0.4, 1.0], 'flip': True}
TEACHER = {'image': {'size': 24, 'stem': 'patchify', 'patch_size': 8}, 'text': {'length': 30}}
OWN = ['image', 'ids', 'length', 'group']


@pytest.fixture(scope='module')
def pack(tmp_path_factory):
    return make_pack(tmp_path_factory.mktemp('teaching'), count=PAIRS)


@pytest.fixture(scope='module')
def tokenizers(pack):
    """The student's and the teacher's: other words, other lengths."""
    captions = sum(read_captions(pack), [])
    return train_tokenizer(captions, 300, 8), train_tokenizer(captions[:5], 270, 30)


@pytest.fixture(scope='module')
def read(pack, tokenizers, make_recipe):
    """``read(epoch, teacher, seed, ...)``: the columns of an epoch by name, all batches joined."""
    def make(epoch=0, teacher=None, seed=0, model=None, tokenizer=tokenizers[0], **sections):
        recipe = make_recipe(model=model, seed=seed, train={'batch_size': BATCH}, data=CROPS, **sections)
        batches = TrainingBatches(pack, recipe, tokenizer, teacher=teacher)
        columns = zip(*([column.asnumpy() for column in batch] for batch in batches.epoch(epoch)))
        return dict(zip(batches.columns, map(np.concatenate, columns)))
    return make


@pytest.fixture(scope='module')
def inputs(tokenizers, make_recipe):
    return TeacherInputs(make_recipe(model=TEACHER), tokenizers[1], tokenizers[0])


def same(one, other, names, others=None):
    return all(np.array_equal(one[name], other[of]) for name, of in zip(names, others or names))


@pytest.mark.parametrize('epoch', [0, 3])
def test_the_teacher_sees_what_it_would_see_in_its_own_training(epoch, read, inputs, tokenizers):
    both = read(epoch, teacher=inputs)
    alone = read(epoch, model=TEACHER, tokenizer=tokenizers[1])
    assert list(both) == [*OWN, 'teacher_image', 'teacher_ids', 'teacher_length', 'align']
    assert same(both, alone, ['teacher_image', 'teacher_ids', 'teacher_length', 'group'], OWN)
    assert same(both, read(epoch), OWN)  # nor does it change what the student sees
    assert both['align'].shape == (12, 8, 30)


def test_words_align_within_their_own_captions(read, inputs, tokenizers):
    both = read(teacher=inputs)
    words = both['align'].sum(2) > 0.5
    expected = np.arange(8)[None] < both['length'][:, None] - 1
    expected[:, 0] = False
    assert not (words & ~expected).any() and words.sum() > 0.8 * expected.sum()
    beyond = np.arange(30)[None] >= both['teacher_length'][:, None] - 1
    assert not both['align'].swapaxes(1, 2)[beyond].any()


def test_places_say_which_draw_of_which_row_a_sample_is(pack, tokenizers, read, inputs, make_recipe):
    distill = {'interactive': 1, 'augmentations': 2}
    places = TeacherPlaces(tokenizers[1], tokenizers[0])
    recipe = make_recipe(train={'batch_size': BATCH}, data=CROPS, distill=distill)
    batches = TrainingBatches(pack, recipe, tokenizers[0], teacher=inputs)
    for epoch in (1, 2):
        columns = read(epoch, teacher=places, distill=distill)
        assert set(columns['augmentation']) == {epoch % 2}
        drawn = list(zip(*batches.samples(epoch % 2, columns['row'])))
        assert all(np.array_equal(columns[name], np.stack(column)) for name, column in zip(OWN, drawn))
        taught = read(epoch, teacher=inputs, distill=distill)
        assert np.array_equal(taught['teacher_image'], np.stack(drawn[4]))


def test_draws_come_round_and_students_of_other_seeds_share_them(tokenizers, read):
    places = TeacherPlaces(tokenizers[1], tokenizers[0])
    distill = {'interactive': 1, 'augmentations': 2, 'seed': 5}

    def by_row(**keys):
        columns = read(teacher=places, distill={**distill, **keys.pop('distill', {})}, **keys)
        return {row: columns['image'][at] for at, row in enumerate(columns['row'])}, columns['row'].tolist()
    first, order = by_row(epoch=0)
    for keys, equal in (({'epoch': 2}, True), ({'epoch': 0, 'seed': 9}, True), ({'epoch': 1}, False),
                        ({'epoch': 0, 'distill': {'seed': 6}}, False)):
        other, other_order = by_row(**keys)
        assert all(np.array_equal(first[row], other[row]) for row in first.keys() & other.keys()) is equal, keys
        assert order != other_order or keys == {'epoch': 0, 'distill': {'seed': 6}}
