"""A pack holds every usable pair in order, names every other row, and appears whole or not at all."""
import errno
import filecmp
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from hcma.data import pack as packing
from hcma.data.pack import pack, read_captions, read_meta, read_records, shard_paths
from hcma.data.shards import ShardWriters
from hcma.data.sources import read_pairs
from hcma.errors import InputError

PREPARE = Path(__file__).parents[2] / 'tools' / 'prepare.py'
DATA = Path(os.environ.get('HCMA_TEST_DATA', Path(__file__).parents[3] / 'shared' / 'data'))
COLOURS = ['red', 'green', 'blue', 'white', 'black', 'gold', 'pink']


@pytest.fixture
def table(tmp_path):
    """A JSONL file of seven good rows, one of them a copy of another's picture, and four bad ones."""
    rows = []
    for number, colour in enumerate(COLOURS):
        Image.new('RGB', (20 + number, 16), colour).save(tmp_path / f'{colour}.png')
        rows.append({'image': f'{colour}.png', 'captions': [f'a {colour} wall', f'{colour} 色的墙']})
    shutil.copy(tmp_path / 'red.png', tmp_path / 'copy.png')
    (tmp_path / 'cut.png').write_bytes((tmp_path / 'red.png').read_bytes()[:60])
    (tmp_path / 'empty.jpg').write_bytes(b'')
    rows[3:3] = [{'image': 'none.jpg', 'caption': 'A'}, {'image': 'cut.png', 'caption': 'A'}, {'image': 'red.png'}]
    rows += [{'image': 'empty.jpg', 'caption': 'A'}, {'image': 'copy.png', 'caption': 'the same wall'}]
    path = tmp_path / 'pairs.jsonl'
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return str(path)


def packed(table, out, **options):
    pairs, rejects = read_pairs(table)
    return pack(pairs, str(out), rejects, 'pairs.jsonl', **options)


def run(*arguments):
    return subprocess.run([sys.executable, PREPARE, *map(str, arguments)], capture_output=True, text=True)


def same_files(folder, other):
    names = sorted(os.listdir(folder))
    return names == sorted(os.listdir(other)) and filecmp.cmpfiles(folder, other, names, shallow=False)[0] == names


def test_every_usable_pair_is_read_back_in_order(table, tmp_path):
    meta = packed(table, tmp_path / 'out', shards=3)
    captions = [[f'a {colour} wall', f'{colour} 色的墙'] for colour in COLOURS] + [['the same wall']]
    assert (meta['images'], meta['captions']) == (8, 15)
    assert read_meta(tmp_path / 'out') == meta
    assert read_captions(tmp_path / 'out') == captions
    for rows in (range(8), [5, 0, 7, 5, 2]):
        records = list(read_records(tmp_path / 'out', rows))
        assert [record['row'] for record in records] == list(rows)
        assert [record['captions'] for record in records] == [captions[row] for row in rows]
    records = list(read_records(tmp_path / 'out', range(8)))
    assert [Image.open(io.BytesIO(record['image'])).width for record in records] == [20, 21, 22, 23, 24, 25, 26, 20]
    assert [record['source'] for record in records[2:4]] == ['pairs.jsonl:3', 'pairs.jsonl:7']


def test_equal_pictures_share_a_group_and_others_do_not(table, tmp_path):
    packed(table, tmp_path / 'out')
    groups = [record['group'] for record in read_records(tmp_path / 'out', range(8))]
    assert groups[0] == groups[7]
    assert len(set(groups)) == 7
    assert all(0 <= group < 2 ** 63 for group in groups)


def test_every_rejected_row_is_named_with_its_reason(table, tmp_path):
    meta = packed(table, tmp_path / 'out')
    rejects = [json.loads(line) for line in (tmp_path / 'out' / 'rejects.jsonl').read_text().splitlines()]
    assert {(reject['line'], reject['image'], reject['reason'].split(':')[0]) for reject in rejects} == {
        (4, 'none.jpg', 'missing file'), (5, 'cut.png', 'truncated image'), (6, 'red.png', 'no caption'),
        (11, 'empty.jpg', 'empty file')}
    assert {reject['file'] for reject in rejects} == {'pairs.jsonl'}
    assert meta['rejected'] == {'missing file': 1, 'truncated image': 1, 'no caption': 1, 'empty file': 1}


def test_each_row_of_a_rejected_image_is_named(tmp_path):
    (tmp_path / 'p.csv').write_text('image,caption\nnone.jpg,A\nred.png,B\nnone.jpg,C\n')
    Image.new('RGB', (8, 8)).save(tmp_path / 'red.png')
    packed(str(tmp_path / 'p.csv'), tmp_path / 'out')
    rejects = [json.loads(line) for line in (tmp_path / 'out' / 'rejects.jsonl').read_text().splitlines()]
    assert [reject['line'] for reject in rejects] == [2, 4]


@pytest.mark.parametrize('shards', [1, 3])
def test_same_input_gives_the_same_bytes_for_any_number_of_workers(shards, table, tmp_path):
    packed(table, tmp_path / 'one', shards=shards, workers=1)
    packed(table, tmp_path / 'many', shards=shards, workers=5)
    assert same_files(tmp_path / 'one', tmp_path / 'many')


def test_a_moved_pack_and_a_pack_of_moved_files_are_the_same(table, tmp_path):
    packed(table, tmp_path / 'out')
    moved = shutil.copytree(tmp_path, tmp_path.parent / 'mövéd 目录', ignore=shutil.ignore_patterns('out'))
    packed(str(moved / 'pairs.jsonl'), moved / 'out')
    assert same_files(tmp_path / 'out', moved / 'out')
    shutil.move(moved / 'out', moved / 'elsewhere')
    assert read_captions(moved / 'elsewhere') == read_captions(tmp_path / 'out')


def test_more_shards_than_pairs_still_reads_back(table, tmp_path):
    packed(table, tmp_path / 'out', shards=11)
    assert len(shard_paths(tmp_path / 'out')) == 11
    assert [record['row'] for record in read_records(tmp_path / 'out', range(8))] == list(range(8))
    assert len(read_captions(tmp_path / 'out')) == 8


def test_the_reading_is_bounded_and_ordered(table, monkeypatch):
    pairs = read_pairs(table)[0] * 30
    started = []
    monkeypatch.setattr(packing, '_clean_image', lambda pair, max_side: started.append(pair) or pair.name)
    images = packing._clean_images(pairs, None, 2)
    assert next(images) == (pairs[0], pairs[0].name)
    assert len(started) <= 2 * packing._AHEAD
    assert [name for _, name in images] == [pair.name for pair in pairs[1:]]


def test_taken_folders_are_refused_and_only_packs_are_replaced(table, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    first = packed(table, out)
    with pytest.raises(InputError, match='not empty.*--overwrite'):
        packed(table, out)
    assert packed(table, out, overwrite=True, max_side=8)['fingerprint'] != first['fingerprint']
    with pytest.raises(InputError, match='holds no meta.json'):
        packed(table, tmp_path, overwrite=True)
    with pytest.raises(InputError, match='is a file'):
        packed(table, table, overwrite=True)
    with pytest.raises(InputError, match='pairs.jsonl/out: cannot be written: Not a directory'):
        packed(table, f'{table}/out')


def test_a_failure_leaves_what_was_there(table, tmp_path, monkeypatch):
    packed(table, tmp_path / 'out')
    before, digest = sorted(os.listdir(tmp_path)), read_meta(tmp_path / 'out')['fingerprint']

    def full(self):
        raise OSError(errno.ENOSPC, 'No space left on device')
    monkeypatch.setattr(ShardWriters, 'close', full)
    with pytest.raises(InputError, match='the disk is full'):
        packed(table, tmp_path / 'out', overwrite=True, max_side=8)
    with pytest.raises(InputError, match='the disk is full'):
        packed(table, tmp_path / 'other')
    assert sorted(os.listdir(tmp_path)) == before
    assert read_meta(tmp_path / 'out')['fingerprint'] == digest


def test_no_usable_pair_is_refused_with_the_reasons(tmp_path):
    (tmp_path / 'p.csv').write_text('image,caption\nnone.jpg,A\nnone.jpg,\n')
    with pytest.raises(InputError, match=r'pairs.jsonl: no usable pair.*1 x .*missing file.*--image-root'):
        packed(str(tmp_path / 'p.csv'), tmp_path / 'out')
    assert os.listdir(tmp_path) == ['p.csv']


def test_what_is_no_pack_is_refused(table, tmp_path):
    with pytest.raises(InputError, match='not a packed data set.*prepare'):
        read_captions(tmp_path)
    packed(table, tmp_path / 'out')
    with pytest.raises(IndexError):
        list(read_records(tmp_path / 'out', [8]))
    os.remove(shard_paths(tmp_path / 'out')[0])
    with pytest.raises(InputError, match='missing'):
        read_captions(tmp_path / 'out')
    (tmp_path / 'out' / 'meta.json').write_text('{"format": 99}')
    with pytest.raises(InputError, match='is of format 99, .* reads format 2; prepare .*--overwrite'):
        read_meta(tmp_path / 'out')


def test_prepare_says_what_became_of_every_row(table, tmp_path):
    done = run(table, '--out', tmp_path / 'out')
    assert done.returncode == 0, done.stderr
    assert '8 pairs (images), 15 captions, rejected rows: 4' in done.stdout
    assert '1  missing file' in done.stdout
    again = run(table, '--out', tmp_path / 'out')
    assert (again.returncode, again.stdout) == (2, '')
    assert again.stderr == f'error: {tmp_path}/out: exists and is not empty; give another folder, or pass --overwrite\n'


def test_killed_prepare_leaves_no_pack_and_the_next_run_clears_up(table, tmp_path):
    rows = Path(table).read_text().splitlines()[:3]
    many = tmp_path / 'many.jsonl'
    Image.effect_noise((1500, 1500), 50).save(tmp_path / 'noise.png')
    links = [f'{number}.png' for number in range(300)]
    for name in links:
        os.link(tmp_path / 'noise.png', tmp_path / name)
    many.write_text('\n'.join(rows + [json.dumps({'image': name, 'caption': 'noise'}) for name in links]))
    process = subprocess.Popen([sys.executable, PREPARE, many, '--out', tmp_path / 'out'], stderr=subprocess.DEVNULL)
    while not (tmp_path / '.out.partial').exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / 'out').exists()
    assert (tmp_path / '.out.partial').exists()
    packed(table, tmp_path / 'out')
    assert not (tmp_path / '.out.partial').exists()
    assert len(read_captions(tmp_path / 'out')) == 8


@pytest.mark.skipif(not (DATA / 'coco_mini').is_dir(), reason='no real photographs: set HCMA_TEST_DATA')
def test_real_photographs_all_pack_and_keep_their_bytes(tmp_path):
    source = DATA / 'coco_mini' / 'captions.jsonl'
    pairs, rejects = read_pairs(str(source))
    meta = pack(pairs, str(tmp_path / 'out'), rejects)
    assert meta['images'] == len(pairs) > 200
    assert meta['rejected'] == {}
    for pair, record in zip(pairs, read_records(tmp_path / 'out', range(5))):
        assert record['image'] == pair.image.read()
