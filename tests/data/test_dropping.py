"""Dropped words and patches: what is left, that it is drawn with the sample, and that wrong texts stay wrong."""
import numpy as np
import pytest

from hcma.data.dropping import without
from hcma.data.pack import read_captions
from hcma.data.pipeline import TrainingBatches
from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from helpers.packs import make_pack

IDS, LENGTH = np.array([1, 5, 6, 7, 2, 0, 0], np.int32), np.int32(5)


@pytest.mark.parametrize('dropped, expected', [
    ([2], [1, 5, 7, 2, 0, 0, 0]), ([0, 1, 4, 5], [1, 6, 7, 2, 0, 0, 0]), ([1, 2, 3], [1, 5, 6, 7, 2, 0, 0]),
    ([], [1, 5, 6, 7, 2, 0, 0])])
def test_begin_end_and_order_stay_and_a_caption_is_never_emptied(dropped, expected):
    ids, length = without((IDS, LENGTH), np.isin(np.arange(7), dropped))
    assert ids.tolist() == expected and length == np.flatnonzero(expected)[-1] + 1


def test_no_text_stays_no_text():
    ids, length = without((np.zeros(7, np.int32), np.int32(0)), np.ones(7, bool))
    assert length == 0 and not ids.any()


@pytest.fixture(scope='module')
def read(tmp_path_factory, make_recipe):
    """``read(epoch, start, negatives=, **train)``: the batches of an epoch as dicts of arrays by column."""
    data = make_pack(tmp_path_factory.mktemp('dropping'), count=12)
    tokenizer = train_tokenizer(sum(read_captions(data), []), 300, 8)

    def batches(epoch=0, start=0, negatives='none', **train):
        recipe = make_recipe(train={'batch_size': 4, **train}, data={'negatives': negatives})
        made = TrainingBatches(data, recipe, tokenizer).epoch(epoch, start)
        return [{name: column.asnumpy() for name, column in zip(recipe.columns, batch)} for batch in made]
    return batches


def test_every_picture_keeps_its_own_share_of_patches(read):
    kept = np.concatenate([batch['kept'] for batch in read(drop_patches=0.7)])
    patches = kept.max() + 1
    assert kept.shape[1] == round(0.3 * 16) and patches <= 16
    assert all(len(set(row)) == len(row) and sorted(row) == row for row in kept.tolist())
    assert len({tuple(row) for row in kept.tolist()}) > 6


def test_what_is_dropped_depends_on_seed_epoch_and_row_alone(read):
    train = {'drop_patches': 0.5, 'drop_words': 0.4}
    whole, rest = read(1, **train), read(1, 1, **train)
    assert all(np.array_equal(one[name], other[name]) for one, other in zip(whole[1:], rest) for name in one)


def test_pictures_are_those_of_a_run_that_drops_nothing_and_words_are_fewer(read):
    plain, dropped = read(negatives='perturb'), read(negatives='perturb', drop_words=0.5, drop_patches=0.5)
    for one, other in zip(plain, dropped):
        assert np.array_equal(one['image'], other['image'])
        assert (other['length'] <= one['length']).all() and other['length'].sum() < one['length'].sum()
        wrong = other['negative_length'] > 0
        assert wrong.any() and (other['length'] == other['negative_length'])[wrong].all()
        assert (other['ids'] != other['negative_ids'])[wrong].any(1).all()


@pytest.mark.parametrize('sections', [{'train': {'drop_patches': 0.5}, 'loss': {'levels': ['phrase_region']}},
                                      {'train': {'drop_words': 0.5}, 'vqa': {'checkpoint': 'run'}}])
def test_what_needs_all_patches_or_words_is_refused(sections, make_recipe):
    with pytest.raises(InputError, match='drop_'):
        make_recipe(**sections)
