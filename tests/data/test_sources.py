"""The same pairs read from every format are the same pairs, and a bad row costs that row alone."""
import csv
import io
import json
import subprocess
import sys
import tarfile

import pytest

from hcma.data.sources import Options, read_pairs
from hcma.data.sources.pairs import clean_caption, clean_captions
from hcma.errors import InputError

PAIRS = {
    'a.jpg': ['A man, a dog and a "cat".', '一个人和一只狗。'],
    'b.png': ['A red ball'],
    'c.jpg': ['Two; birds | on\ta wire', 'Birds', 'Zwei Vögel'],
}
READ = [(name, tuple(' '.join(text.split()) for text in captions)) for name, captions in PAIRS.items()]


def write(path, text, **options):
    path.write_text(text, **{'encoding': 'utf-8', **options})
    return str(path)


def read(path, format=None, **options):
    """Return ([(image name, captions)], [(line, kind)])."""
    pairs, rejects = read_pairs(str(path), format, Options(**options))
    return [(pair.name, pair.captions) for pair in pairs], [(reject.line, reject.kind) for reject in rejects]


def as_jsonl(folder):
    return write(folder / 'p.jsonl', ''.join(json.dumps({'image': name, 'captions': captions}) + '\n'
                                             for name, captions in PAIRS.items()))


def as_jsonl_of_single_captions(folder):
    return write(folder / 'p.jsonl', ''.join(json.dumps({'image': name, 'caption': caption}) + '\n'
                                             for name, captions in PAIRS.items() for caption in captions))


def as_table(delimiter):
    def make(folder):
        buffer = io.StringIO()
        table = csv.writer(buffer, delimiter=delimiter)
        table.writerow(['image', 'caption'])
        table.writerows((name, caption) for name, captions in PAIRS.items() for caption in captions)
        return write(folder / 'p.csv', buffer.getvalue(), newline='')
    return make


def as_coco(folder):
    ids = {name: number for number, name in enumerate(PAIRS, start=7)}
    return write(folder / 'p.json', json.dumps({
        'info': {}, 'images': [{'id': number, 'file_name': name} for name, number in ids.items()],
        'annotations': [{'image_id': ids[name], 'id': 1, 'caption': caption}
                        for name, captions in PAIRS.items() for caption in captions]}))


def as_flickr(folder):
    return write(folder / 'p.token', ''.join(f'{name}#{number}\t{caption}\n' for name, captions in PAIRS.items()
                                             for number, caption in enumerate(captions)))


def as_folder(folder):
    for name, captions in PAIRS.items():
        (folder / name).write_bytes(name.encode())
        write((folder / name).with_suffix('.txt'), '\n'.join(captions) + '\n\n')
    return str(folder)


def as_tar(folder):
    with tarfile.open(folder / 'p.tar', 'w') as tar:
        for name, captions in PAIRS.items():
            for member, data in ((name, name), (f'{name[:-4]}.txt', '\n'.join(captions))):
                info = tarfile.TarInfo(member)
                info.size = len(data.encode())
                tar.addfile(info, io.BytesIO(data.encode()))
    return str(folder / 'p.tar')


@pytest.mark.parametrize('make', [as_jsonl, as_jsonl_of_single_captions, as_table(','), as_table('\t'), as_table(';'),
                                  as_table('|'), as_coco, as_flickr, as_folder, as_tar])
def test_every_format_is_recognised_and_gives_the_same_pairs(make, tmp_path):
    assert read(make(tmp_path)) == (READ, [])


@pytest.mark.parametrize('make', [as_folder, as_tar])
def test_bytes_are_read_where_they_lie(make, tmp_path):
    pairs, _ = read_pairs(make(tmp_path))
    assert [pair.image.read() for pair in pairs] == [name.encode() for name in PAIRS]


def test_folder_and_glob_of_tars_are_all_their_tars(tmp_path):
    as_tar(tmp_path)
    (tmp_path / 'p.tar').rename(tmp_path / 'q0.tar')
    as_tar(tmp_path)
    assert read(tmp_path) == read(tmp_path / '*.tar') == (READ + READ, [])
    assert read(tmp_path / 'q*.tar') == (READ, [])


def test_cut_tar_gives_the_samples_before_the_cut(tmp_path):
    path = as_tar(tmp_path)
    with open(path, 'r+b') as file:
        file.truncate(2 * 1024 + 700)  # within the header of the second sample's captions
    pairs, rejects = read(path)
    assert pairs == READ[:1]
    assert 'broken tar' in [kind for _, kind in rejects]


def test_webdataset_suffixes_and_json_captions_can_be_chosen(tmp_path):
    (tmp_path / '0.jpg').write_bytes(b'jpg')
    (tmp_path / '0.png').write_bytes(b'png')
    write(tmp_path / '0.json', json.dumps({'caption': 'from json', 'alt': 'other'}))
    assert read(tmp_path) == ([('0.jpg', ('from json',))], [])
    assert read(tmp_path, image_key='png', caption_key='alt') == ([('0.png', ('other',))], [])


def test_lonely_files_of_a_folder_are_rejected(tmp_path):
    (tmp_path / 'a.jpg').write_bytes(b'')
    write(tmp_path / 'b.txt', 'a caption')
    write(tmp_path / 'empty.txt', '')
    assert read(tmp_path) == ([], [(1, 'no caption'), (1, 'no image'), (1, 'no image')])


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig', 'utf-16'])
@pytest.mark.parametrize('end', ['\n', '\r\n', '\r'])
@pytest.mark.parametrize('text', ['image\tcaption\n\na.jpg\t狗\n \nb.jpg\tA\n',
                                  '{"image": "a.jpg", "caption": "狗"}\n\n{"image": "b.jpg", "caption": "A"}'])
def test_encodings_line_ends_and_blank_lines_change_nothing(text, end, encoding, tmp_path):
    path = write(tmp_path / 'p', text.replace('\n', end), encoding=encoding, newline='')
    assert read(path) == ([('a.jpg', ('狗',)), ('b.jpg', ('A',))], [])


def test_stray_quotes_cost_no_other_row(tmp_path):
    path = write(tmp_path / 'p.tsv', 'image\tcaption\na.jpg\t"A man\nb.jpg\tA 6" pipe\nc.jpg\t"quoted" words\n'
                                     'd.jpg\t"whole ""quoted"" caption"\ne.jpg\t"two\nlines"\nf.jpg\t6"\n')
    assert read(path) == ([('a.jpg', ('A man',)), ('b.jpg', ('A 6" pipe',)), ('c.jpg', ('"quoted" words',)),
                           ('d.jpg', ('whole "quoted" caption',)), ('e.jpg', ('two lines',)), ('f.jpg', ('6"',))], [])


def test_unquoted_commas_stay_in_a_last_caption_and_reject_the_row_elsewhere(tmp_path):
    path = write(tmp_path / 'p.csv', 'image,caption\na.jpg,A man, a dog, a cat\n')
    assert read(path) == ([('a.jpg', ('A man, a dog, a cat',))], [])
    path = write(tmp_path / 'p.csv', 'caption,image\nA man, a dog,a.jpg\nA cat,b.jpg\nalone\n')
    assert read(path) == ([('b.jpg', ('A cat',))], [(2, 'bad row'), (4, 'bad row')])


def test_null_captions_reject_their_row_alone(tmp_path):
    path = write(tmp_path / 'p.csv', 'image,caption\na.jpg,A\na.jpg,\na.jpg,NaN\n,B\nb.jpg,null\n')
    assert read(path) == ([('a.jpg', ('A',))],
                          [(3, 'no caption'), (4, 'no caption'), (5, 'no image'), (6, 'no caption')])


def test_bad_jsonl_rows_cost_themselves_alone(tmp_path):
    rows = ['{"image": "a.jpg", "caption": "A"}', '{broken', '[1]', '{"image": 3, "caption": "A"}',
            '{"image": "b.jpg", "captions": ["", null, 5]}', '{"image": "http://x/y.jpg", "caption": "A"}',
            '{"image": "c.jpg"}', '{"image": "d.jpg", "captions": "one"}', '{"image": "e.jpg", "captions": {}}']
    assert read(write(tmp_path / 'p.jsonl', '\n'.join(rows))) == (
        [('a.jpg', ('A',)), ('d.jpg', ('one',))],
        [(2, 'bad row'), (3, 'bad row'), (4, 'no image'), (5, 'no caption'),
         (6, 'image is a URL, which is never fetched'), (7, 'no caption'), (9, 'no caption')])


@pytest.mark.parametrize('text', [b'{"image": "a.jpg", "caption": "\xff"}\n{"image": "b.jpg", "caption": "B"}\n',
                                  b'a.jpg#0\t\xff\nb.jpg#0\tB\n'])
def test_bytes_that_are_not_utf8_cost_their_row_alone(text, tmp_path):
    (tmp_path / 'p').write_bytes(text)
    assert read(tmp_path / 'p') == ([('b.jpg', ('B',))], [(1, 'bad row')])


def test_coco_rejects_strays_and_images_without_captions(tmp_path):
    path = write(tmp_path / 'p.json', json.dumps({
        'images': [{'id': 1, 'file_name': 'a.jpg'}, {'id': 2, 'file_name': 'b.jpg'}, {'file_name': 'c.jpg'}],
        'annotations': [{'image_id': 1, 'caption': 'A'}, {'image_id': 1, 'caption': None},
                        {'image_id': 9, 'caption': 'B'}, None]}, indent=1))
    assert read(path) == ([('a.jpg', ('A',))],
                          [(3, 'bad row'), (4, 'bad row'), (2, 'no caption'), (3, 'bad row')])


def test_chinese_flickr_tokens(tmp_path):
    path = write(tmp_path / 'p.txt', 'a.jpg#zhc#0\t狗\na.jpg#zhb#1 猫\nno number\n')
    assert read(path) == ([('a.jpg', ('狗', '猫'))], [(3, 'bad row')])


def test_split_keeps_its_rows_only(tmp_path):
    path = write(tmp_path / 'p.csv', 'split,image,caption\ntrain,a.jpg,A\nval,b.jpg,B\n')
    assert read(path, split='val') == ([('b.jpg', ('B',))], [])
    with pytest.raises(InputError, match='"test".*train, val'):
        read(path, split='test')
    with pytest.raises(InputError, match='--split'):
        read(as_flickr(tmp_path), split='test')


def test_images_are_relative_to_the_file_or_the_given_root(tmp_path):
    path = write(tmp_path / 'p.jsonl', '{"image": "sub/a.jpg", "caption": "A"}')
    assert read_pairs(path)[0][0].image.path == str(tmp_path / 'sub/a.jpg')
    assert read_pairs(path, options=Options(image_root='/r'))[0][0].image.path == '/r/sub/a.jpg'


def test_rows_of_one_image_are_one_pair_with_each_caption_once(tmp_path):
    path = write(tmp_path / 'p.csv', 'image,caption\na.jpg,A\nb.jpg,B\n./a.jpg,C\na.jpg, A \n')
    pairs, _ = read_pairs(path)
    assert [(pair.captions, pair.lines) for pair in pairs] == [(('A', 'C'), (2, 4, 5)), (('B',), (3,))]


@pytest.mark.parametrize('header, options, message', [
    ('picture,sentence1', {}, 'no field is named any of image.*picture, sentence1.*--image-key'),
    ('Image,caption', {}, 'pass --image-key Image'),
    ('image,caption', {'caption_key': 'captoin'}, '"captoin".*image, caption.*pass --caption-key caption'),
])
def test_columns_not_found_are_named_with_the_option_to_pass(header, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / 'p.csv', f'{header}\na.jpg,A\n'), **options)


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path):
    as_jsonl(tmp_path)
    for path, format, message in [
            (tmp_path / 'none', None, 'no such file'), (tmp_path / 'none', 'csv', 'no such file'),
            (tmp_path / '*.tar', None, 'no such file'), (tmp_path, None, r'p\.jsonl; pass one'),
            (tmp_path / 'p.jsonl', 'folder', 'not of the format'), (tmp_path, 'coco', 'not of the format'),
            (tmp_path / 'p.jsonl', 'tar', 'not a plain tar'), (tmp_path / 'p.jsonl', 'coco', 'not JSON'),
            (write(tmp_path / 'l.json', '[{"image": "a.jpg"}]'), None, 'JSON list'),
            (write(tmp_path / 'o.json', '{"images": [], "annotations": []}'), None, 'not COCO'),
            (write(tmp_path / 'empty.csv', ''), None, 'is empty'), (write(tmp_path / 'w', 'words'), None, 'recognised'),
            (write(tmp_path / 'one.csv', 'words'), 'csv', 'must name the columns')]:
        with pytest.raises(InputError, match=message):
            read(path, format)


def test_captions_become_one_clean_line():
    assert clean_caption(' A\tman\r\n\u3000和 a\x07 d\u200bog\x00 ') == 'A man 和 a d\u200bog'
    assert clean_caption('e\u0301') == '\u00e9'
    assert clean_captions(['A', ' ', None, 3, 'A ', 'B', '\x00']) == ('A', 'B')


def test_reading_pairs_and_images_needs_no_mindspore():
    code = 'import sys, hcma.data.sources, hcma.data.images; sys.exit("mindspore" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', code]).returncode == 0
