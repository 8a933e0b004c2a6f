"""Batches have one shape, and which pairs, crops and captions they hold depends on (seed, epoch, row) alone."""
import io

import numpy as np
import pytest
from PIL import Image

from hcma.data import pipeline
from hcma.data.meta import require_training_data
from hcma.data.pack import read_captions, read_records
from hcma.data.pipeline import TrainingBatches, usable_workers
from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from helpers.packs import make_pack

PAIRS = 26
COLUMNS = 'image', 'ids', 'length', 'group'
BATCH = 6
STEPS = PAIRS // BATCH


@pytest.fixture(scope='module')
def pack(tmp_path_factory):
    return make_pack(tmp_path_factory.mktemp('pipeline'), count=PAIRS)


@pytest.fixture(scope='module')
def tokenizer(pack):
    return train_tokenizer(sum(read_captions(pack), []), 300, 8)


@pytest.fixture(scope='module')
def batches(pack, tokenizer, make_recipe):
    """``batches(seed=, ranks=, ...)``: the ``TrainingBatches`` of the pack with such a recipe."""
    def make(seed=0, rank=0, ranks=1, batch_size=BATCH, data_dir=pack, **data):
        recipe = make_recipe(seed=seed, train={'batch_size': batch_size}, data=data)
        return TrainingBatches(data_dir, recipe, tokenizer, rank, ranks)
    return make


def read(batches, epoch=0, start=0):
    """The batches of an epoch as lists of four arrays."""
    return [[column.asnumpy() for column in batch] for batch in batches.epoch(epoch, start)]


def equal(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for left, right in zip(one, other)
                                          for a, b in zip(left, right))


def column(read_batches, name):
    return np.concatenate([batch[COLUMNS.index(name)] for batch in read_batches])


def pictures(read_batches):
    """Which picture each sample is of: all pictures of the pack differ, so their groups do."""
    return column(read_batches, 'group')[:, 0].tolist()


@pytest.fixture(scope='module')
def first(batches):
    """Epoch 0 of the plain recipe."""
    return read(batches())


def test_every_batch_has_the_same_shapes_and_types(first, batches):
    for batch in first + read(batches(), 1):
        assert [(part.shape, part.dtype) for part in batch] == [
            ((BATCH, 16, 16, 3), np.uint8), ((BATCH, 8), np.int32), ((BATCH,), np.int32), ((BATCH, 2), np.int64)]
    assert len(first) == batches().steps(0) == STEPS


def test_rows_that_mindspore_is_told_in_parts_are_the_same_batches(first, batches, monkeypatch):
    monkeypatch.setattr(pipeline, 'AT_ONCE', 2 * BATCH + 1)
    assert equal(read(batches()), first)
    assert equal(read(batches(), start=1), first[1:])


def test_an_epoch_has_each_pair_at_most_once_and_all_where_batches_divide_them(first, batches, pack):
    everything = {record['group'] for record in read_records(pack, range(PAIRS))}
    assert len(everything) == PAIRS
    assert len(set(pictures(first))) == STEPS * BATCH
    assert sorted(pictures(read(batches(batch_size=13)))) == sorted(everything)


def test_each_sample_is_one_of_its_pictures_captions_with_its_own_ids(first, pack, tokenizer):
    records = {record['group']: record for record in read_records(pack, range(PAIRS))}
    for _, ids, lengths, group in first:
        for row, length, (picture, _) in zip(ids, lengths, group):
            assert length >= 3 and row[length - 1] == tokenizer.end
            assert any(np.array_equal(row, tokenizer.encode([caption])[0][0])
                       for caption in records[picture]['captions'])


def test_the_same_seed_and_epoch_give_the_same_bytes(first, batches):
    assert equal(first, read(batches()))
    assert equal(read(batches(), 5), read(batches(), 5))


@pytest.mark.parametrize('change', [{'epoch': 1}, {'seed': 1}], ids=str)
def test_order_crops_and_captions_differ_between_epochs_and_seeds(change, first, batches):
    other = read(batches(seed=change.get('seed', 0)), change.get('epoch', 0))
    assert pictures(other) != pictures(first)
    both = set(pictures(first)) & set(pictures(other))
    crops, texts = ([dict(zip(pictures(some), column(some, name))) for some in (first, other)]
                    for name in ('image', 'ids'))
    changed = [not np.array_equal(crops[0][picture], crops[1][picture]) for picture in both]
    assert np.mean(changed) > 0.9  # so few pixels leave few boxes: two draws may coincide
    same = np.mean([np.array_equal(texts[0][picture], texts[1][picture]) for picture in both])
    assert 0 < same < 0.8, 'one of three captions, drawn anew'


@pytest.mark.parametrize('options', [{'workers': 2}, {'prefetch': 1}, {'prefetch': 16, 'workers': 2}], ids=str)
def test_workers_and_prefetch_change_nothing(options, first, batches):
    assert equal(read(batches(**options)), first)


def test_the_number_of_shards_changes_nothing(first, batches, tmp_path):
    assert equal(read(batches(data_dir=make_pack(tmp_path, count=PAIRS, shards=4))), first)


@pytest.mark.parametrize('start', range(STEPS + 1))
def test_starting_at_a_step_equals_the_uninterrupted_epoch_from_there(start, first, batches):
    assert equal(read(batches(workers=2), start=start), first[start:])


@pytest.mark.parametrize('ranks', [2, 3])
def test_ranks_together_see_exactly_what_one_rank_sees(ranks, first, batches):
    parts = [read(batches(rank=rank, ranks=ranks)) for rank in range(ranks)]
    together = [[np.concatenate(columns) for columns in zip(*step)] for step in zip(*parts)]
    assert equal(together, first)
    assert [len(part) for part in parts] == [STEPS] * ranks
    assert all(len(batch[0]) == BATCH // ranks for part in parts for batch in part)


def test_equal_pictures_and_equal_captions_share_their_groups_and_others_do_not(batches, tmp_path):
    for name, colour in (('one', 'red'), ('other', 'blue'), ('copy', 'red'), ('third', 'green')):
        Image.new('RGB', (20, 20), colour).save(tmp_path / f'{name}.png')
    captions = {'one': 'A wall', 'other': 'a wall', 'copy': 'something', 'third': 'else'}
    data = make_pack(tmp_path, [{'image': f'{name}.png', 'caption': caption} for name, caption in captions.items()])
    (image, _, _, group), = read(batches(data_dir=data, batch_size=4))
    by_colour = {}
    for picture, groups in zip(image[:, 8, 8], group):
        by_colour.setdefault(int(np.argmax(picture)), []).append(tuple(groups))
    (red, copy), (green,), (blue,) = by_colour[0], by_colour[1], by_colour[2]
    assert red[0] == copy[0] and red[1] != copy[1]
    assert len({red[0], green[0], blue[0]}) == 3
    assert blue[1] in (red[1], copy[1]) and green[1] not in (red[1], copy[1], blue[1])
    assert (group >= 0).all()


def test_nothing_is_flipped_unless_asked(first, batches, make_recipe):
    assert make_recipe().data.flip is False
    plain, flipped = column(first, 'image'), column(read(batches(flip=True)), 'image')
    mirrored = [np.array_equal(a, b[:, ::-1]) for a, b in zip(plain, flipped)]
    assert all(mirror or np.array_equal(a, b) for mirror, a, b in zip(mirrored, plain, flipped))
    assert 0 < sum(mirrored) < len(mirrored)


def test_without_randomness_a_sample_is_the_whole_picture(batches, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for name in 'ab':
        Image.fromarray(picture).save(tmp_path / f'{name}.png')
    data = make_pack(tmp_path, [{'image': f'{name}.png', 'caption': 'x'} for name in 'ab'])
    (image, *_), = read(batches(data_dir=data, batch_size=2, crop_area=[1.0, 1.0], crop_aspect=[1.0, 1.0]))
    record = next(read_records(data, [0]))
    assert np.abs(image[0].astype(int) - np.asarray(Image.open(io.BytesIO(record['image'])))).max() <= 1


def test_a_batch_that_ranks_cannot_share_is_refused(batches):
    with pytest.raises(InputError, match='train.batch_size: 6 cannot be shared by 4 ranks'):
        batches(ranks=4)


def test_a_batch_larger_than_the_data_is_refused(pack, make_recipe):
    require_training_data(make_recipe(train={'batch_size': PAIRS}, data={'train': str(pack)}))
    with pytest.raises(InputError, match=f'train.batch_size: {PAIRS + 1} is more than the {PAIRS} pairs'):
        require_training_data(make_recipe(train={'batch_size': PAIRS + 1}, data={'train': str(pack)}))


def test_more_workers_than_cores_are_fewer_and_said_so(monkeypatch, capsys):
    monkeypatch.setattr('os.cpu_count', lambda: 2)
    assert (usable_workers(1), usable_workers(2)) == (1, 2) and not capsys.readouterr().err
    assert usable_workers(5) == 2
    assert 'data.workers: 5 is more than the 2 cores' in capsys.readouterr().err
