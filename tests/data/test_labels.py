"""Class names, templates and labelled pictures are read as they are written, and a slip is named with its place."""
import json

import pytest

from hcma.data.labels import Classes, read_labelled, read_templates
from hcma.errors import InputError


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')
    return path


@pytest.fixture
def classes(tmp_path):
    return Classes(write(tmp_path / 'classes.txt', 'red panda\n\nn0144\t金鱼\nCafé\n'))


def test_a_class_is_found_by_its_name_and_its_label(classes):
    assert classes.names == ['red panda', '金鱼', 'Café']
    found = [classes.number(label, 'here') for label in ('red_panda', 'Red Panda ', 'n0144', '金鱼', 'CAFE\u0301')]
    assert found == [0, 0, 1, 1, 2]
    with pytest.raises(InputError, match="line 4: 'red-panda' is none of the 3 classes .*did you mean 'red panda'"):
        classes.number('red-panda', "line 4: 'red-panda'")


@pytest.mark.parametrize('read, text, message', [
    (Classes, '', 'f.txt: is empty; give class names'), (Classes, 'a\n', 'f.txt: has one class'),
    (Classes, 'a b\nc\nA_b\n', "f.txt, line 3: 'A_b' is there already"),
    (read_templates, ' \n', 'f.txt: is empty; give templates'),
    (read_templates, 'a {}\na photo of {x}\n', "f.txt, line 2: 'a photo of {x}' has no {}")])
def test_a_slip_is_named_with_its_line(read, text, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / 'f.txt', text))
    with pytest.raises(InputError, match='none.txt: cannot be read'):
        read(tmp_path / 'none.txt')


def test_folders_are_classes(classes, tmp_path):
    for name in ('Red_Panda/b.jpg', 'Red_Panda/more/a.jpg', '金鱼/c.jpg', '.hidden/d.jpg', 'readme.txt'):
        write(tmp_path / 'data' / name, '')
    found, rejects = read_labelled(tmp_path / 'data', classes)
    assert [(item.image.rsplit('/', 1)[1], item.label) for item in found] == [('b.jpg', 0), ('a.jpg', 0), ('c.jpg', 1)]
    write(tmp_path / 'data' / 'dog' / 'e.jpg', '')
    with pytest.raises(InputError, match="data: its folder 'dog' is none of the 3 classes of .*classes.txt"):
        read_labelled(tmp_path / 'data', classes)


def test_rows_are_pictures_with_labels(classes, tmp_path):
    rows = [{'image': 'a.jpg', 'label': 'n0144'}, {'image': 'b.jpg', 'label': 'café'}, {'image': 'c.jpg', 'class': 1}]
    lines = write(tmp_path / 'd.jsonl', ''.join(json.dumps(row) + '\n' for row in rows))
    table = write(tmp_path / 'd.csv', 'image,label\na.jpg,n0144\nb.jpg,café\nc.jpg,\n')
    for path, line in ((lines, 1), (table, 2)):
        found, (reject,) = read_labelled(path, classes)
        assert [(item.image, item.label, item.line) for item in found] == [
            (str(tmp_path / 'a.jpg'), 1, line), (str(tmp_path / 'b.jpg'), 2, line + 1)]
        assert reject.line == line + 2 and 'no image and label' in reject.reason
    write(lines, '{"image": "a.jpg", "label": 3}\n')
    with pytest.raises(InputError, match='d.jsonl, line 1: 3 is none of the 3 classes'):
        read_labelled(lines, classes)
    write(lines, '{"image": "a.jpg"}\n')
    with pytest.raises(InputError, match='d.jsonl: no labelled picture .line 1: no image and label'):
        read_labelled(lines, classes)
