"""Of two captions the right one scores higher: counted by type, a tie as half, and no bad row or picture stops it."""
import json

import numpy as np
import pytest
from PIL import Image

from hcma.data.crops import Decoder
from hcma.errors import InputError
from hcma.evaluation.choice import accuracy, choice_margins, choice_metrics, load_pictures, read_choices
from hcma.evaluation.tasks import Evaluation
from hcma.evaluation.weights import weightings
from helpers.fake_encoder import BrightnessEncoder


def write(path, rows):
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')
    return str(path)


def row(image, right, wrong, kind='plain'):
    return {'image': image, 'caption': f'{right} right', 'negative_caption': f'{wrong} wrong', 'type': kind}


@pytest.fixture
def choices(tmp_path):
    """Two pictures of brightness 50 and 200; the first level decides 3 of 4 'easy', 1 of 2 'hard' and ties the last."""
    for brightness in (50, 200):
        Image.new('RGB', (12, 9), (brightness,) * 3).save(tmp_path / f'{brightness}.png')
    rows = [row('50.png', 50, 60, 'easy'), row('50.png', 50, 0, 'easy'), row('200.png', 200, 50, 'easy'),
            row('200.png', 10, 190, 'easy'), row('50.png', 45, 60, 'hard'), row('200.png', 190, 210, 'hard')]
    return write(tmp_path / 'choices.jsonl', rows)


@pytest.fixture
def evaluation(tmp_path):
    """An ``Evaluation`` whose scores are known."""
    made = Evaluation.__new__(Evaluation)
    made.run_dir, made.encoder, made.decoder = tmp_path, BrightnessEncoder(), Decoder((8, 8))
    made.weightings = weightings(made.encoder.levels, {'far': 0.5})
    return made


def test_a_margin_counts_one_or_nothing_and_a_tie_half():
    margin = np.array([3.0, -3.0, 0.0, 1e-7, -1e-7, 1e-3, -1e-3])
    assert accuracy(margin).tolist() == [1, 0, 0.5, 0.5, 0.5, 1, 0]


def test_accuracy_is_counted_by_type_and_macro_counts_every_type_alike():
    rows = [{'type': kind} for kind in ('a', 'a', 'a', 'a', 'b', 'c')]
    margins = np.array([[1, 1, 1, -1, 0, -1], [-1, -1, -1, 1, 0, 1]], float)
    metrics = choice_metrics(margins, rows, {'one': np.array([1, 0]), 'other': np.array([0, 2])})
    assert metrics['one'] == {'macro': round((75 + 50 + 0) / 3, 2), 'overall': round(100 * 3.5 / 6, 2),
                              'types': {'a': 75.0, 'b': 50.0, 'c': 0.0}}
    assert metrics['other']['types'] == {'a': 25.0, 'b': 50.0, 'c': 100.0}


def test_margins_are_the_scores_of_the_right_less_those_of_the_wrong_caption(choices, tmp_path):
    rows = read_choices(choices)
    margins, right, wrong = choice_margins(BrightnessEncoder(), rows, load_pictures(rows, tmp_path, Decoder((8, 8))))
    assert right[0].tolist() == [0, 0, 0, -190, -5, -10]
    assert wrong[0].tolist() == [-10, -50, -150, -10, -10, -10]
    assert np.array_equal(margins, right - wrong) and np.array_equal(margins[1], -margins[0])


def test_the_result_has_the_documented_keys_and_every_level_beside_the_weighted_sum(choices, evaluation):
    result = evaluation.choice(choices)
    assert result['types'] == {'easy': 75.0, 'hard': 75.0}
    assert (result['macro'], result['overall']) == (75.0, 75.0)
    assert result['counts'] == {'easy': 4, 'hard': 2} and result['skipped'] == 0
    assert result['levels']['far']['types'] == {'easy': 25.0, 'hard': 25.0}
    assert result['levels']['weighted'] == {key: result[key] for key in ('macro', 'overall', 'types')}
    assert result['weights'] == {'near': 1.0, 'far': 0.5}


def test_weights_decide_which_level_counts(choices, evaluation):
    evaluation.weightings = weightings(evaluation.encoder.levels, {'far': 2.0})
    assert evaluation.choice(choices)['types'] == {'easy': 25.0, 'hard': 25.0}
    evaluation.weightings = weightings(evaluation.encoder.levels, {})
    assert evaluation.choice(choices)['macro'] == 50.0, 'levels that cancel out tie every choice'


def test_pictures_that_cannot_be_used_are_skipped_and_counted(choices, evaluation, tmp_path, capsys):
    (tmp_path / 'cut.png').write_bytes((tmp_path / '50.png').read_bytes()[:40])
    (tmp_path / 'text.png').write_text('no picture')
    bad = [row(name, 1, 2) for name in ('none.png', 'cut.png', 'text.png', '.', 'zero\0byte.png', 'none.png')]
    rows = read_choices(choices)
    result = evaluation.choice(write(tmp_path / 'more.jsonl', bad + rows + bad[:1]))
    assert result['skipped'] == 7
    assert (result['types'], result['counts']) == ({'easy': 75.0, 'hard': 75.0}, {'easy': 4, 'hard': 2})
    assert '7 of 13 choices skipped' in capsys.readouterr().err


def test_no_usable_picture_at_all_is_refused(evaluation, tmp_path):
    path = write(tmp_path / 'choices.jsonl', [row('none.png', 1, 2)])
    with pytest.raises(InputError, match=r'none of its images can be read \(the first: none.png\); .*relative'):
        evaluation.choice(path)


def test_paths_are_relative_to_the_file_and_rows_without_a_type_are_one_type(choices, evaluation, tmp_path,
                                                                             monkeypatch):
    rows = [{key: value for key, value in one.items() if key != 'type'} for one in read_choices(choices)]
    write(tmp_path / 'choices.jsonl', rows)
    monkeypatch.chdir(tmp_path)
    assert evaluation.choice('choices.jsonl')['types'] == evaluation.choice(choices)['types'] == {'all': 75.0}


def test_pictures_are_seen_as_in_training_upright_and_centred(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    turned = Image.fromarray(wide.swapaxes(0, 1))
    exif = turned.getexif()
    exif[0x0112] = 6
    Image.fromarray(wide).save(tmp_path / 'wide.png')
    turned.save(tmp_path / 'turned.png', exif=exif)
    pictures = load_pictures([{'image': 'wide.png'}, {'image': 'turned.png'}], tmp_path, Decoder((8, 8)))
    for picture in pictures.values():
        assert (picture.shape, picture.dtype, picture.min()) == ((8, 8, 3), np.uint8, 255)


def test_a_mark_blank_lines_and_unknown_keys_do_no_harm(choices, tmp_path):
    path = tmp_path / 'marked.jsonl'
    lines = [json.dumps({**one, 'extra': 1}) for one in read_choices(choices)]
    path.write_bytes(b'\xef\xbb\xbf' + '\r\n\r\n'.join(lines).encode())
    assert [one['caption'] for one in read_choices(path)] == [one['caption'] for one in read_choices(choices)]


def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path):
    path = write(tmp_path / 'choices.jsonl', [row('\ud800.png', '1 \udfff', 2)])
    assert [read_choices(path)[0][key] for key in ('image', 'caption')] == ['?.png', '1 ? right']


BAD = {
    'no JSON': (b'{"image": \n', 'line 1: is not JSON'),
    'no object': (b'\n[1]\n', 'line 2: is not a JSON object'),
    'misspelt key': (b'{"image": "a", "caption": "b", "negativ_caption": "c"}\n',
                     "line 1: has no text under 'negative_caption', did you mean its 'negativ_caption'.*has image"),
    'number for a caption': (b'{"image": "a", "caption": 3, "negative_caption": "c"}\n', "no text under 'caption'"),
    'nothing': (b'\n\n', 'has no choices'),
    'other encoding': ('{"image": "é"}'.encode('latin-1'), 'cannot be read .it is not UTF-8'),
}


@pytest.mark.parametrize('name', BAD)
def test_a_bad_file_is_refused_with_its_line_and_key(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / 'bad.jsonl').write_bytes(content)
    with pytest.raises(InputError, match=f'bad.jsonl.*{message}'):
        read_choices(tmp_path / 'bad.jsonl')


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / 'none.jsonl', tmp_path):
        with pytest.raises(InputError, match='cannot be read .*give a JSONL of choices'):
            read_choices(path)
