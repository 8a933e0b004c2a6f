"""Negatives and twins of the data: what a pack holds of them, and how they come in the batches."""
import itertools
import json
import os
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from hcma.data.meta import require_training_data
from hcma.data.pack import pack, read_captions, read_records, read_twins
from hcma.data.pipeline import TrainingBatches
from hcma.data.sources import read_pairs
from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from helpers.packs import make_pack

PAIRS, BATCH = 26, 6


@pytest.fixture
def rows(tmp_path):
    """Seven rows on six pictures, with negatives and twins in all the ways a JSONL may write them."""
    for number in range(6):
        Image.new('RGB', (16, 16), (40 * number, 0, 0)).save(tmp_path / f'{number}.png')
    extra = [{'negatives': ['a  false one', 'A CAPTION', '', None, 'a false one'], 'twin': 'x'},
             {'negatives': 'one string', 'twin': 3}, {'negatives': None, 'twin': None}, {'twin': ' x '},
             {'negatives': [' '], 'twin': ''}, {'negatives': {'a': 'dict'}, 'twin': ['list']},
             {'negatives': ['late', 'a caption'], 'twin': '3'}]
    names = [0, 1, 2, 3, 4, 5, 1]
    return [{'image': f'{name}.png', 'captions': ['a caption', f'{number}'], **more}
            for number, (name, more) in enumerate(zip(names, extra))]


def test_negatives_and_twins_are_read_back_without_blanks_and_without_the_images_own_captions(rows, tmp_path):
    data = make_pack(tmp_path, rows)
    records = list(read_records(data, range(6)))
    expected = [['a false one'], ['one string', 'late'], [], [], [], ['dict']]
    assert [[text for text, _ in record['negatives']] for record in records] == expected
    assert records[5]['negatives'] == [['dict', 'a']]
    twins = read_twins(data)
    assert twins[0] == twins[3] >= 6 and len(set(twins)) == 5 and (twins >= 0).all()
    assert [record['twin'] for record in records] == list(twins)
    meta = json.loads((data / 'meta.json').read_text())
    assert (meta['negatives'], meta['negatives_dropped'], meta['twins']) == (4, 2, 2)


def test_the_same_rows_give_the_same_bytes_and_other_negatives_another_fingerprint(rows, tmp_path):
    folders = []
    for name, changed in (('a', {}), ('b', {}), ('c', {'negatives': 'other'}), ('d', {'twin': 'other'})):
        path = tmp_path / 'rows.jsonl'
        path.write_text(''.join(json.dumps(row) + '\n' for row in [{**rows[0], **changed}, *rows[1:]]))
        folders.append(tmp_path / name)
        pack(*[read_pairs(str(path))[0], str(folders[-1])], workers=1 + len(folders))
    one, other = ([(path.name, path.read_bytes()) for path in sorted(folder.iterdir())] for folder in folders[:2])
    assert one == other
    prints = [json.loads((folder / 'meta.json').read_text())['fingerprint'] for folder in folders]
    assert len(set(prints)) == 3


def test_a_table_has_them_as_columns_and_twins_of_other_files_are_others(tmp_path):
    for name in 'ab':
        Image.new('RGB', (8, 8), 'red').save(tmp_path / f'{name}.png')
        (tmp_path / f'{name}.csv').write_text(f'image,negatives,twin,caption\n{name}.png,"[""no"", ""never""]",1,yes\n')
    pairs = [read_pairs(str(tmp_path / f'{name}.csv'))[0][0] for name in 'ab']
    assert [pair.negatives for pair in pairs] == [(('no', ''), ('never', ''))] * 2
    assert pack(pairs, str(tmp_path / 'out'))['twins'] == 0


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """A pack in which every third row has no negatives and rows 0 and 1, 2 and 3, ... up to 15 are twins."""
    folder = tmp_path_factory.mktemp('negatives')
    made = make_pack(folder, count=PAIRS)
    path = folder / 'pairs' / 'pairs.jsonl'
    lines = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]
    for number, row in enumerate(lines):
        row['negatives'] = [f'negative {number} {one}' for one in range(number % 3)]
        if number < 16:
            row['twin'] = number // 2
    path.write_text(''.join(json.dumps(row) + '\n' for row in lines), encoding='utf-8')
    pack(read_pairs(str(path))[0], str(made), overwrite=True)
    return made


@pytest.fixture(scope='module')
def tokenizer(data):
    captions = sum(read_captions(data), [])
    return train_tokenizer(captions + ['negative'] * 50, 320, 16)


@pytest.fixture(scope='module')
def read(data, tokenizer, make_recipe):
    """``read(epoch=, start=, rank=, ranks=, ...)``: the batches of an epoch as lists of arrays."""
    def batches(epoch=0, start=0, rank=0, ranks=1, **section):
        recipe = make_recipe(train={'batch_size': BATCH}, data=section)
        made = TrainingBatches(data, recipe, tokenizer, rank, ranks).epoch(epoch, start)
        return [[column.asnumpy() for column in batch] for batch in made]
    return batches


def equal(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in
                                          zip(itertools.chain(*one), itertools.chain(*other)))


@pytest.fixture(scope='module')
def rows_of(data):
    """``rows_of(batch)``: which rows of the pack a batch shows."""
    row = {record['group']: record['row'] for record in read_records(data, range(PAIRS))}
    return lambda batch: [row[picture] for picture in batch[3][:, 0].tolist()]


def test_a_negative_belongs_to_its_row_and_rows_without_one_have_length_zero(read, rows_of, tokenizer):
    drawn = Counter()
    for batch in read(0, negatives='data') + read(1, negatives='data'):
        assert [part.dtype for part in batch[4:]] == [np.int32] * 2
        for row, ids, length in zip(rows_of(batch), *batch[4:]):
            own = [tokenizer.encode_one(f'negative {row} {one}') for one in range(row % 3)]
            found = [one for one, (expected, size) in enumerate(own)
                     if length == size and np.array_equal(ids, expected)]
            assert found or (not own and length == 0 and not ids.any())
            drawn[(row % 3, *found)] += 1
    assert set(drawn) == {(0,), (1, 0), (2, 0), (2, 1)}


def test_a_negative_worded_like_the_drawn_caption_is_preferred(tmp_path, make_recipe, tokenizer):
    rows = [{'image': f'{number}.png', 'captions': ['one', 'two', 'three'],
             'negatives': {'one': 'not one', 'two': ['not two']}} for number in range(6)]
    for number in range(6):
        Image.new('RGB', (16, 16), (40 * number, 0, 0)).save(tmp_path / f'{number}.png')
    recipe = make_recipe(data={'negatives': 'data'}, train={'batch_size': 6})
    batches = TrainingBatches(str(make_pack(tmp_path, rows)), recipe, tokenizer)
    drawn = {tuple(tokenizer.tokenizer.decode(list(part)).strip() for part in (ids[:length], negative[:size]))
             for epoch in range(8) for batch in batches.epoch(epoch)
             for ids, length, negative, size in zip(*(batch[column].asnumpy() for column in (1, 2, 4, 5)))}
    assert drawn == {('one', 'not one'), ('two', 'not two'), ('three', 'not one'), ('three', 'not two')}


@pytest.mark.parametrize('negatives', ['data', 'perturb'])
def test_pictures_and_captions_are_those_of_a_run_without_negatives(negatives, read):
    plain = read()
    assert [len(batch) for batch in plain] == [4] * (PAIRS // BATCH)
    assert equal(plain, [batch[:4] for batch in read(negatives=negatives)])


def test_a_perturbed_caption_is_another_text_than_the_caption(read):
    batches = read(negatives='perturb')
    lengths = np.concatenate([batch[5] for batch in batches])
    assert (lengths > 2).any()
    for _, ids, _, _, negative, length in batches:
        assert not any(size and np.array_equal(*pair) for *pair, size in zip(ids, negative, length))


@pytest.mark.parametrize('options', [{'negatives': 'data', 'twins': True}, {'negatives': 'perturb'}], ids=str)
def test_starting_at_a_step_and_sharing_among_devices_change_nothing(options, read):
    whole = read(epoch=1, **options)
    for start in range(PAIRS // BATCH + 1):
        assert equal(read(epoch=1, start=start, workers=min(2, os.cpu_count()), **options), whole[start:])
    parts = [read(epoch=1, rank=rank, ranks=2, **options) for rank in range(2)]
    assert equal([[np.concatenate(columns) for columns in zip(*step)] for step in zip(*parts)], whole)


def test_twins_are_side_by_side_and_no_row_comes_twice(read, rows_of):
    for epoch in range(3):
        batches = [rows_of(batch) for batch in read(epoch, twins=True)]
        assert len(set(sum(batches, []))) == PAIRS // BATCH * BATCH
        for rows in batches:
            pairs = [row for row in rows if row < 16]
            assert [row ^ 1 for row in pairs[::2]] == pairs[1::2] and rows[:len(pairs)] == pairs
    assert batches != [rows_of(batch) for batch in read(0, twins=True)]


def test_negatives_and_twins_that_the_data_lacks_are_refused(data, make_recipe, tmp_path):
    plain = make_pack(tmp_path, count=BATCH)
    for section, message in (({'negatives': 'data'}, 'data.negatives: is data, but no row of .*pack'),
                             ({'twins': True}, 'data.twins: is true, but no two rows of .*pack are twins')):
        require_training_data(make_recipe(train={'batch_size': BATCH}, data={'train': str(data), **section}))
        with pytest.raises(InputError, match=message):
            require_training_data(make_recipe(train={'batch_size': BATCH}, data={'train': str(plain), **section}))
