"""Boxes and chunks given with the data: read, packed, and where they are after crop, flip and tokenizer."""
import json
import re

import numpy as np
import pytest
from PIL import Image

from hcma.data import shards
from hcma.data.captions import Captions, moved
from hcma.data.crops import Decoder, View
from hcma.data.dropping import without
from hcma.data.meta import require_training_data
from hcma.data.pack import pack, read_records
from hcma.data.pipeline import TrainingBatches
from hcma.data.records import Records
from hcma.data.regions import Regions
from hcma.data.sources import read_pairs
from hcma.data.sources.parts import parse_boxes, parse_chunks
from hcma.data.tokenizer import train_tokenizer
from hcma.errors import InputError
from helpers.packs import make_pack

CAPTIONS = ['a red cat sits on the sofa', '一只红猫坐在沙发上', 'dogs']
OWN = {'model': {'regions': 'boxes', 'phrases': 'chunks', 'max_boxes': 3, 'max_chunks': 4,
                 'image': {'size': 32, 'stem': 'patchify', 'patch_size': 4, 'stem_channels': []}},
       'loss': {'levels': ['phrase_region']}}


@pytest.fixture(scope='module')
def tokenizer():
    return train_tokenizer(CAPTIONS * 50, 300, 8)


@pytest.fixture
def picture_of():
    """``picture_of(box, height, width)``: a black picture with the box in white."""
    def draw(box, height=40, width=64):
        x0, y0, x1, y1 = box
        picture = np.zeros((height, width, 3), np.uint8)
        picture[y0:y1, x0:x1] = 255
        return picture
    return draw


# ---- reading and packing

def test_boxes_and_chunks_are_read_from_lists_mappings_and_tables(tmp_path):
    Image.new('RGB', (40, 20)).save(tmp_path / 'a.png')
    rows = [{'captions': ['a  red cat', 'two dogs'], 'chunks': [[[0, 6], [7, 10]], None]},
            {'captions': ['a red cat'], 'negatives': 'no cat', 'chunks': {'a red cat': [[2, 9]], 'no cat': [[0, 2]]}},
            {'caption': 'a red cat', 'chunks': [[2, 5]]}]
    expected = [[('a red cat', 0, 5), ('a red cat', 6, 9)], [('a red cat', 2, 9), ('no cat', 0, 2)],
                [('a red cat', 2, 5)]]
    for row, chunks in zip(rows, expected):
        (pair,), rejects = _read(tmp_path, 'r.jsonl', json.dumps({'image': 'a.png', 'boxes': [[0, 0.5, 4, 4]], **row}))
        assert (list(pair.chunks), pair.boxes, rejects) == (chunks, ((0, 0.5, 4, 4),), [])
    table = 'image,boxes,chunks,caption\na.png,"[[1, 2, 3, 4]]","[[0, 1]]",a cat\n'
    (pair,), rejects = _read(tmp_path, 'r.csv', table)
    assert (pair.boxes, pair.chunks, rejects) == (((1, 2, 3, 4),), (('a cat', 0, 1),), [])


def _read(folder, name, text):
    (folder / name).write_text(text, encoding='utf-8')
    return read_pairs(str(folder / name))


@pytest.mark.parametrize('value, reason', [
    ([[0, 0, 0, 4]], r'\[0, 0, 0, 4\] is not \[x0'), ([[4, 0, 1, 4]], 'x0 < x1'), ([[0, 0, 4]], 'is not'),
    ([[0, 0, True, 4]], 'is not'), ([[0, 0, float('nan'), 4]], 'is not'), (['0 0 4 4'], 'is not'), ([None], 'is not'),
    ([[0, 0, 10 ** 400, 4]], 'is not'), ({'x': 1}, 'is no list of boxes'), (3, 'is no list of boxes')])
def test_what_is_no_box_is_named_and_the_others_stay(value, reason):
    boxes, (why,) = parse_boxes([[0, 0, 1, 1], *value] if isinstance(value, list) else value)
    assert boxes == (((0, 0, 1, 1),) if isinstance(value, list) else ())
    assert why.startswith('bad box: ') and re.search(reason, why)


@pytest.mark.parametrize('value, reason', [
    ([[[1, 2], [6, 9]]], r'\[1, 2\] is no \[start, end\] around words'), ([[[0, 99], [6, 9]]], 'around words'),
    ([[[2, 2], [6, 9]]], 'around words'), ([[[-1, 2], [6, 9]]], 'around words'), ([[[0, 1.0], [6, 9]]], 'around'),
    ([[3, [6, 9]]], 'around words'), ([5], '5 is no list'), ([[], []], '2 lists of chunks for 1 captions'),
    ({'other': [[0, 1]]}, '"other" is no caption or negative'), (7, 'neither a mapping')])
def test_what_is_no_chunk_is_named_and_the_others_stay(value, reason):
    chunks, (why,) = parse_chunks(value, ['a red cat'])
    assert why.startswith('bad chunk: ') and re.search(reason, why)
    assert list(chunks) in ([], [('a red cat', 6, 9)])


def test_a_chunk_is_where_its_words_are_in_the_cleaned_caption():
    text = ' \tun  cafe\u0301 noir\u0000 et\nlait'
    words = ['un', '  cafe\u0301 noir', 'et\nlait', '\u0301 noir']  # the last one starts inside of a composed character
    chunks, bad = parse_chunks([[text.index(some), text.index(some) + len(some)] for some in words], text)
    assert [chunk.of[chunk.start:chunk.end] for chunk in chunks] == ['un', 'caf\u00e9 noir', 'et lait']
    assert len(bad) == 1


def test_a_pack_holds_boxes_as_shares_of_the_upright_picture_and_names_what_lies_outside(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn: 40 wide, 20 high as stored, 20 wide, 40 high as seen
    Image.new('RGB', (40, 20)).save(tmp_path / 'a.jpg', exif=exif)
    Image.new('RGB', (8, 8), 'red').save(tmp_path / 'b.png')
    boxes = [[5, 10, 20.4, 30], [0, 0, 30, 10], [20.5, 1, 21, 2], [3, 3, 2, 2]]
    rows = [{'image': 'a.jpg', 'caption': 'a', 'boxes': boxes},
            {'image': 'b.png', 'caption': '猫 猫', 'chunks': [[2, 3], [0, 1], [1, 2]]}]
    path = tmp_path / 'rows.jsonl'
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    pairs, rejects = read_pairs(str(path))
    meta = pack(pairs, str(tmp_path / 'out'), rejects, max_side=10)
    first, second = read_records(tmp_path / 'out', range(2))
    assert (first['boxes'], first['chunks']) == ([[0.25, 0.25, 1.0, 0.75]], {})
    assert (second['boxes'], second['chunks']) == ([], {'猫 猫': [[0, 1], [2, 3]]})
    assert (meta['images'], meta['boxes'], meta['chunks']) == (2, 1, 2)
    assert meta['rejected'] == {'bad box': 2, 'bad chunk': 1}
    reasons = [json.loads(line)['reason'] for line in (tmp_path / 'out' / 'rejects.jsonl').read_text().splitlines()]
    assert 'bad box: [0.0, 0.0, 30.0, 10.0] is outside the picture of 20 x 40 pixels' in reasons


def test_a_pack_from_before_boxes_and_chunks_is_read(tmp_path, monkeypatch, make_recipe, tokenizer):
    add, parts = Records.add, ('boxes', 'chunks')
    monkeypatch.setattr(shards, 'SCHEMA', {name: kind for name, kind in shards.SCHEMA.items() if name not in parts})
    monkeypatch.setattr(Records, 'add', lambda *row: {name: value for name, value in add(*row).items()
                                                      if name not in parts})
    data = make_pack(tmp_path, count=4)
    meta = json.loads((data / 'meta.json').read_text())
    (data / 'meta.json').write_text(json.dumps({name: value for name, value in meta.items() if name not in parts}))
    assert [(record['boxes'], record['chunks']) for record in read_records(data, range(4))] == [([], {})] * 4
    assert len(list(TrainingBatches(data, make_recipe(train={'batch_size': 4}), tokenizer).epoch(0))) == 1
    with pytest.raises(InputError, match='no row of .* has boxes'):
        require_training_data(make_recipe(model={'regions': 'boxes'}, loss=OWN['loss'], data={'train': str(data)},
                                          train={'batch_size': 4}))


# ---- regions

def weights(box, grid):
    """The share of every patch in a box, (grid, grid), by counting 64 x 64 points of each."""
    at = (np.arange(grid * 64) + 0.5) / 64
    inside = (at >= box[1])[:, None] & (at < box[3])[:, None] & (at >= box[0]) & (at < box[2])
    return inside.reshape(grid, 64, grid, 64).mean((1, 3))


@pytest.mark.parametrize('mirrored', [False, True])
@pytest.mark.parametrize('view', [(0, 0, 40, 64), (8, 16, 32, 32), (5, 3, 30, 50)])
def test_a_box_lands_on_the_patches_that_show_its_thing(view, mirrored, picture_of, make_recipe):
    """What the decoder shows of a white thing on black, patch by patch, is what the box covers of each patch."""
    model, thing = make_recipe(**OWN).model, (28, 12, 44, 28)
    view = View(*view, mirrored)
    boxes, = Regions(model)([[28 / 64, 12 / 40, 44 / 64, 28 / 40]], view, 40, 64)
    seen = Decoder((32, 32)).see(picture_of(thing), view)[..., 0] / 255
    patches = seen.reshape(8, 4, 8, 4).mean((1, 3))
    assert np.abs(patches - weights(boxes[0], 8)).max() < 0.12  # resizing blurs edges
    assert np.abs(patches - weights(boxes[0], 8)[:, ::-1]).max() > 0.3


def test_boxes_that_left_the_crop_are_not_there_and_windows_fill_up(make_recipe):
    regions = Regions(make_recipe(**OWN).model)
    inside, half_out, left = [0.5, 0, 1, 1], [0.25, 0, 0.76, 1], [0, 0, 0.4, 1]
    view = View(0, 20, 40, 20)  # the right half of 40 x 40
    boxes, = regions([left, half_out, inside], view, 40, 40)
    assert boxes.dtype == np.float32 and boxes.shape == (3, 4)
    np.testing.assert_allclose(boxes[:2], [[0, 0, 8 * 0.52, 8], [0, 0, 8, 8]], atol=1e-5)
    assert any(np.array_equal(boxes[2], window) for window in regions.windows)
    assert np.array_equal(regions([left], view, 40, 40)[0], regions([], view, 40, 40)[0])
    assert len({tuple(box) for box in regions.none[0]}) == 3
    many, = regions([inside] * 5, view, 40, 40)
    assert (many == [0, 0, 8, 8]).all()
    assert Regions(make_recipe().model)([inside], view, 40, 40) == ()


# ---- phrases

def tokens(tokenizer, ids, span):
    return tokenizer.tokenizer.decode(list(ids[span[0]:span[1]])).strip()


@pytest.mark.parametrize('caption, chunks, expected', [
    ('a red cat sits', [[0, 9], [2, 5], [10, 14]], ['a red cat', 'red', 'sits']),
    ('一只红猫坐在', [[0, 4], [2, 3], [4, 6]], ['一只红猫', '红', '坐在']),
    ('a red cat sits on the sofa', [[18, 26], [2, 9]], ['red cat'])])
def test_chunks_are_the_tokens_of_their_words(caption, chunks, expected, tokenizer, make_recipe):
    """The last caption loses its end, and with it the chunk that reaches there."""
    ids, length, spans = Captions(make_recipe(**OWN).model, tokenizer).one(caption, chunks)
    assert (spans.shape, spans.dtype) == ((4, 2), np.int32)
    assert [tokens(tokenizer, ids, span) for span in spans[:len(expected)]] == expected
    assert not spans[len(expected):].any() and spans.max() < length


def test_a_caption_without_chunks_has_its_runs_of_words(tokenizer, make_recipe):
    captions = Captions(make_recipe(**OWN).model, tokenizer)
    runs = [[1, 4], [2, 5], [0, 0], [0, 0]]
    for chunks in ((), [[50, 60]]):
        assert captions.one('a red cat sits', chunks)[2].tolist() == runs
    ids, lengths, spans = captions(CAPTIONS, [None, [[0, 3]], None])
    assert spans[0].tolist() == [[1, 4], [2, 5], [3, 6], [4, 7]] and spans[1].tolist()[1:] == [[0, 0]] * 3
    assert not spans[2].any()
    assert np.array_equal(ids, tokenizer.encode(CAPTIONS)[0]) and (spans.max(1)[:, 1] < lengths).all()
    without_begin = Captions(make_recipe(**OWN).model, train_tokenizer(CAPTIONS * 50, 300, 8, begin=False))
    assert without_begin.one('a red cat sits')[2].tolist() == [[0, 3], [1, 4], [0, 0], [0, 0]]


def test_spans_lose_the_words_that_were_dropped():
    spans = np.array([[1, 3], [2, 4], [3, 4], [0, 0]], np.int32)
    text = np.array([1, 5, 6, 7, 2, 0], np.int32), np.int32(5), spans
    ids, length, left = without(text, np.isin(np.arange(6), [3]))
    assert (ids.tolist(), length, left.dtype) == ([1, 5, 6, 2, 0, 0], 4, np.int32)
    assert left.tolist() == [[1, 3], [2, 3], [3, 3], [0, 0]]


@pytest.mark.parametrize('changed', ['a red lion sits', 'a red t sits', 'a red c\u00e4t sits', 'a red cats sits'])
def test_chunks_move_with_the_word_that_was_replaced(changed):
    text, word = 'a red cat sits', changed.split()[2]
    chunks = moved(((0, 5), (2, 9), (6, 9), (10, 14)), text, changed)
    assert [changed[start:end] for start, end in chunks[:1] + chunks[3:]] == ['a red', 'sits']
    assert [changed[start:end] for start, end in chunks[1:3]] in (['red ' + word, word], ['red cat', 'cat'])


# ---- batches

@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Six pictures; the first three have a box and a chunk, all have a negative."""
    folder = tmp_path_factory.mktemp('parts')
    rows = []
    for number in range(6):
        Image.new('RGB', (40, 40), (40 * number, 0, 0)).save(folder / f'{number}.png')
        own = {'boxes': [[10, 10, 30, 30]], 'chunks': {'a red cat sits': [[2, 9]]}} if number < 3 else {}
        rows.append({'image': f'{number}.png', 'caption': 'a red cat sits', 'negatives': 'a red dog sits', **own})
    return make_pack(folder, rows)


@pytest.mark.parametrize('drop_words', [0.0, 0.5])
def test_batches_have_boxes_and_spans_and_those_of_wrong_texts(drop_words, data, tokenizer, make_recipe):
    recipe = make_recipe(train={'batch_size': 6, 'drop_words': drop_words},
                         data={'negatives': 'data', 'crop_area': (1.0, 1.0), 'crop_aspect': (1.0, 1.0)}, **OWN)
    assert recipe.columns == ('image', 'boxes', 'ids', 'length', 'spans', 'group', 'negative_ids', 'negative_length',
                              'negative_spans')
    (batch,) = TrainingBatches(data, recipe, tokenizer).epoch(0)
    columns = {name: column.asnumpy() for name, column in zip(recipe.columns, batch)}
    own = columns['image'][:, 0, 0, 0] < 100
    assert own.sum() == 3 and (columns['boxes'][own, 0] == [2, 2, 6, 6]).all()
    assert (columns['boxes'][~own] == Regions(recipe.model).none[0]).all()
    if not drop_words:
        assert (columns['spans'][own] == [[2, 4], [0, 0], [0, 0], [0, 0]]).all()
        assert (columns['spans'][~own] == [[1, 4], [2, 5], [0, 0], [0, 0]]).all()
        wrong = Captions(recipe.model, tokenizer).one('a red dog sits')
        assert all((columns[f'negative_{name}'] == part).all() for name, part in zip(recipe.text_columns, wrong))
    assert (columns['spans'].max(1)[:, 1] < columns['length']).all()


def test_what_the_data_or_the_levels_lack_is_refused(data, tmp_path, make_recipe):
    plain = make_pack(tmp_path, count=4)
    for section, message in (({'regions': 'boxes'}, 'model.regions: is boxes, but no row of .*pack has boxes; pack'),
                             ({'phrases': 'chunks'}, 'model.phrases: is chunks, but no row of .*pack has chunks; p')):
        for path in (data, plain):
            recipe = make_recipe(model=section, loss=OWN['loss'], data={'train': str(path)}, train={'batch_size': 4})
            if path is data:
                require_training_data(recipe)
        with pytest.raises(InputError, match=message):
            require_training_data(recipe)
        with pytest.raises(InputError, match='are for the level phrase_region; add it to loss.levels'):
            make_recipe(model=section)
