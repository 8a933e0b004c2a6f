"""Claims about the report: every part may be missing, nothing is loaded from outside, numbers are those measured."""
import base64
import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from hcma.errors import InputError
from hcma.report import write_report
from hcma.report.run_files import read_log

EVIL = '<script>alert(1)</script> "\'& 红色'
LEVELS = ('sentence_global', 'word_patch')


class PageReader(HTMLParser):
    """Collects what the tests ask of a page: tags, links, numbers and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.numbers, self.text = [], [], [], ''
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.links += [attrs[key] for key in ('src', 'href', 'srcset', 'data', 'action', 'poster') if key in attrs]
        if tag == 'data':
            self.numbers.append(float(attrs['value']))

    def handle_data(self, data):
        self.text += data


def recalls(r1):
    return {'r1': r1, 'r5': r1 + 10.25, 'r10': r1 + 20.5, 'median_rank': 17.0, 'mean_rank': 41.23}


def make_metrics():
    ways = {'image_to_text': recalls(12.345), 'text_to_image': recalls(11.111)}
    levels = {name: {'image_to_text': recalls(7.5 + place), 'text_to_image': recalls(5.5 + place)}
              for place, name in enumerate((*LEVELS, 'weighted'))}
    choice = {'macro': 84.296, 'overall': 83.1, 'types': {'colour': 99.75, EVIL: 52.04},
              'counts': {'colour': 8, EVIL: 5},
              'levels': {name: {'macro': 61.5 + place, 'types': {'colour': 71.25}}
                         for place, name in enumerate(LEVELS)}}
    return {'retrieval': {**ways, 'levels': levels, 'images': 100, 'captions': 500}, 'choice': choice,
            'training': {'images_per_s': 311.4, 'seconds': 107.1, 'steps': 30, 'parameters': 1243200,
                         'utilisation': 0.91, 'time_data': 0.03},
            'environment': {'mindspore': '2.10.0', 'device': EVIL}}


def make_log(steps=30):
    lines = [json.dumps({'event': 'start', 'step': 0})]
    for step in range(1, steps + 1):
        row = {'step': step, 'epoch': 0, 'loss': 4 / step, 'lr': 1e-3, 'loss_scale': 1024.0, 'overflow': step == 3,
               'grad_norm': float('inf') if step == 3 else 1.0, 'images_per_s': 300.0}
        row |= {f'loss_{level}': 2 / step for level in LEVELS} | {f'scale_{level}': 14.3 for level in LEVELS}
        lines.append(json.dumps(row))
    return '\n'.join([*lines, json.dumps({'event': EVIL, 'step': 20, 'why': EVIL}), '{"step": 31, "lo'])


def make_run(root):
    """A run with every part; texts that would break a page that does not escape them."""
    examples = root / 'examples'
    examples.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(examples / 'x.jpg')
    metrics = make_metrics()
    files = {
        'examples/comparison.json': {'rows': [
            {'name': 'flat', 'choice': {'macro': 68.75, 'types': {'colour': 98.5}}, 'seconds': 44.2},
            {'name': EVIL, **metrics, 'seconds': 107.1}]},
        'examples/heatmaps.json': [{'image': 'x.jpg', 'caption': EVIL, 'words': [
            {'text': EVIL, 'heat': [[0.1, -0.25], [0.5, 0.0]]}]}],
        'examples/retrieval.json': {
            'text_to_image': [{'caption': EVIL, 'results': [{'image': 'x.jpg', 'score': 0.625, 'right': True}]}],
            'image_to_text': [{'image': 'gone.jpg', 'results': [{'caption': EVIL, 'score': 0.375, 'right': False}]}]},
        'examples/choices.json': [{'image': 'x.jpg', 'caption': EVIL, 'negative_caption': EVIL + 'b', 'type': EVIL,
                                   'scores': [0.3125, 0.4375], 'right': False}],
        'metrics.json': metrics}
    for name, content in files.items():
        (root / name).write_text(json.dumps(content))
    (root / 'recipe.yaml').write_text(f'note: {EVIL}\n', encoding='utf-8')
    (root / 'log.jsonl').write_text(make_log())
    return root


@pytest.fixture(scope='module')
def full_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp('reports') / 'run')


@pytest.fixture(scope='module')
def full_page(full_run):
    return write_report(full_run).read_text(encoding='utf-8')


PARTS = {'recipe.yaml': 'No recipe yet', 'log.jsonl': 'No training log yet', 'metrics.json': 'No retrieval results yet',
         'examples/comparison.json': 'No second run', 'examples/heatmaps.json': 'No heat maps yet',
         'examples/retrieval.json': 'No examples of retrieval yet',
         'examples/choices.json': 'No examples of choices yet'}


@pytest.mark.parametrize('part', PARTS)
def test_each_part_may_be_missing_and_the_page_says_what_makes_it(tmp_path, part, full_page):
    run = make_run(tmp_path / 'run')
    (run / part).unlink()
    text = PageReader(write_report(run).read_text(encoding='utf-8')).text
    assert PARTS[part] in text
    assert PARTS[part] not in PageReader(full_page).text
    assert sum(sentence in text for sentence in PARTS.values()) == 1


def test_an_empty_run_still_has_a_page(tmp_path):
    text = PageReader(write_report(tmp_path).read_text(encoding='utf-8')).text
    assert all(sentence in text for sentence in PARTS.values())


def test_half_filled_parts_leave_gaps_not_faults(tmp_path):
    run = make_run(tmp_path / 'run')
    (run / 'metrics.json').write_text('{"retrieval": {"image_to_text": {"r1": NaN}}, "choice": {"types": {"a": null}}}')
    ragged = {'image': 'x.jpg', 'words': [{'text': 'a', 'heat': [[1], [2, 3]]}]}
    (run / 'examples/heatmaps.json').write_text(json.dumps([ragged, 5]))
    (run / 'examples/choices.json').write_text('[{}, {"image": "a\\u0000b", "caption": "\\ud800"}]')
    (run / 'examples/retrieval.json').write_text('{"text_to_image": [{}], "image_to_text": null}')
    (run / 'log.jsonl').write_text('{"step": 1, "loss": NaN}\n\n{"event": "stopped"}\n')
    assert write_report(run).exists()


def test_every_text_is_escaped(full_page):
    page = PageReader(full_page)
    assert 'script' not in page.tags
    # caption of heat map, its word, both retrievals, choice, type, name of the second run, event, device, recipe …
    assert page.text.count(EVIL) >= 10


def test_the_page_loads_nothing_from_outside(full_page):
    page = PageReader(full_page)
    assert page.links and all(link.startswith(('data:image/', '#')) for link in page.links)
    assert not {'script', 'link', 'iframe', 'object', 'embed'} & set(page.tags)
    assert '://' not in full_page and 'url(' not in full_page and '@import' not in full_page


def test_every_inner_link_has_its_target(full_page):
    for link in PageReader(full_page).links:
        assert not link.startswith('#') or f'id="{link[1:]}"' in full_page


def test_same_input_gives_same_bytes_in_another_process_without_mindspore(tmp_path, full_run, full_page):
    other = make_run(tmp_path / 'run')
    code = ('import sys; from hcma.report import write_report; write_report(sys.argv[1]); '
            'sys.exit("mindspore" in sys.modules)')
    environment = {**os.environ, 'PYTHONHASHSEED': '7'}
    subprocess.run([sys.executable, '-c', code, str(other)], check=True, env=environment)
    assert (other / 'report.html').read_bytes() == (full_run / 'report.html').read_bytes()


def test_the_numbers_shown_are_those_of_metrics_json(full_page):
    shown = PageReader(full_page).numbers
    metrics = make_metrics()
    expected = [metrics['choice']['macro'], metrics['choice']['overall'], *metrics['choice']['types'].values()]
    for direction in ('image_to_text', 'text_to_image'):
        expected += metrics['retrieval'][direction].values()
        expected += [value for level in LEVELS for value in metrics['retrieval']['levels'][level][direction].values()]
    assert set(expected) <= set(shown)
    assert '>84.3</data>' in full_page and '>12.3</data>' in full_page


def test_answers_and_judgements_are_shown_with_their_numbers(tmp_path):
    vqa = {'accuracy': 61.125, 'types': {EVIL: 71.25}, 'majority_by_type': 31.5, 'majority_types': {EVIL: 41.75},
           'counts': {EVIL: 8}}
    level = {'kendall_b': 21.5, 'kendall_c': 22.5, 'spearman': 23.5}
    judgement = {'kendall_b': 51.5, 'kendall_c': 52.5, 'spearman': 53.5, 'levels': {name: level for name in LEVELS}}
    for metrics, numbers in (({'vqa': vqa, 'training': {'task': 'vqa'}}, {61.125, 71.25, 31.5, 41.75}),
                             ({'judgement': judgement}, {21.5, 22.5, 23.5, 51.5, 52.5, 53.5})):
        (tmp_path / 'metrics.json').write_text(json.dumps(metrics))
        assert numbers <= set(PageReader(write_report(tmp_path).read_text(encoding='utf-8')).numbers)


def test_zero_shot_classification_is_shown_with_its_confusions_where_they_were_drawn(tmp_path):
    level = {'top1': 11.5, 'top5': None, 'mean_per_class': 12.5}
    metrics = {'zero_shot': {'top1': 31.5, 'top5': 61.5, 'mean_per_class': 32.5,
                             'levels': {name: level for name in LEVELS},
                             'classes': {EVIL: {'images': 7, 'top1': 41.25, 'taken_for': '红色'}}, 'images': 7,
                             'choices': 9, 'templates': 80}}
    (tmp_path / 'metrics.json').write_text(json.dumps(metrics))
    page = PageReader(write_report(tmp_path).read_text(encoding='utf-8'))
    assert {11.5, 12.5, 31.5, 61.5, 32.5, 41.25, 7} <= set(page.numbers) and EVIL in page.text and '红色' in page.text
    assert 'img' not in page.tags
    (tmp_path / 'examples').mkdir()
    Image.new('RGB', (900, 900)).save(tmp_path / 'examples' / 'confusion.png')
    picture = base64.b64encode((tmp_path / 'examples' / 'confusion.png').read_bytes()).decode()
    assert picture in write_report(tmp_path).read_text(encoding='utf-8')


def test_a_run_that_answers_questions_misses_only_their_evaluation(tmp_path):
    (tmp_path / 'metrics.json').write_text('{"training": {"task": "vqa", "seconds": 9.0}}')
    (tmp_path / 'log.jsonl').write_text('{"step": 1, "loss": 2.0, "accuracy": 0.5}\n')
    text = PageReader(write_report(tmp_path).read_text(encoding='utf-8')).text
    assert 'No answered questions yet' in text and 'Right answers in the batch' in text
    assert [sentence for sentence in PARTS.values() if sentence in text] == [PARTS['recipe.yaml']]


def test_attention_of_a_fusion_is_drawn_beside_the_cosines_or_without_them(tmp_path):
    run = make_run(tmp_path / 'run')
    (run / 'examples/attention.json').write_text(json.dumps([{
        'image': 'x.jpg', 'caption': EVIL, 'name': EVIL, 'words': [{'text': 'a', 'heat': [[0.125, 0.375]]}]}]))
    assert {0.5, 0.375} <= set(PageReader(write_report(run).read_text(encoding='utf-8')).numbers)
    (run / 'examples/heatmaps.json').unlink()
    page = PageReader(write_report(run).read_text(encoding='utf-8'))
    assert 0.375 in page.numbers and 0.5 not in page.numbers and 'No heat maps yet' not in page.text


def test_the_comparison_shows_the_difference_in_points(full_page):
    assert 15.5 in PageReader(full_page).numbers
    assert '+15.5' in full_page


def test_pictures_are_embedded_unchanged_and_files_outside_the_run_never(tmp_path):
    run = make_run(tmp_path / 'run')
    picture = base64.b64encode((run / 'examples/x.jpg').read_bytes()).decode()
    Image.new('RGB', (8, 8)).save(tmp_path / 'secret.png')
    secret = base64.b64encode((tmp_path / 'secret.png').read_bytes()).decode()
    choice = {'image': '../../secret.png', 'caption': 'a', 'negative_caption': 'b', 'scores': [1, 0], 'right': True}
    (run / 'examples/choices.json').write_text(json.dumps([choice]))
    page = write_report(run).read_text(encoding='utf-8')
    assert picture in page and secret not in page
    assert 'missing picture: ../../secret.png' in page


@pytest.mark.parametrize('content', ['{"retrieval": ', '[1, 2]'])
def test_a_file_that_is_not_what_its_name_says_is_named(tmp_path, content):
    (tmp_path / 'metrics.json').write_text(content)
    with pytest.raises(InputError, match='metrics.json'):
        write_report(tmp_path)


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match='no such run directory'):
        write_report(tmp_path / 'nowhere')


def test_of_a_step_logged_twice_the_last_line_stands(tmp_path):
    path = tmp_path / 'log.jsonl'
    path.write_text('{"step":1,"loss":3}\n{"step":2,"loss":9}\n{"event":"resumed"}\n{"step":2,"loss":2}\n{"step":3,"l')
    log = read_log(path)
    assert log.steps.tolist() == [1, 2] and log.columns['loss'].tolist() == [3, 2]
    assert log.events == [{'event': 'resumed', 'step': 2}] and log.unreadable == 1


def test_the_loss_scale_is_not_a_level(tmp_path):
    (tmp_path / 'log.jsonl').write_text(make_log())
    assert read_log(tmp_path / 'log.jsonl').level_names() == list(LEVELS)


def test_a_student_is_shown_next_to_its_teacher(tmp_path):
    run = make_run(tmp_path / 'run')
    maps = json.loads((run / 'examples/heatmaps.json').read_text())
    (run / 'examples/teacher/examples').mkdir(parents=True)
    (run / 'examples/teacher/examples/heatmaps.json').write_text(json.dumps(maps))
    Image.new('RGB', (24, 24)).save(run / 'examples/teacher/examples/x.jpg')
    metrics = json.loads((run / 'metrics.json').read_text())
    side = {'size': {'parameters': 12345, 'images_per_s': 77.7}, 'retrieval': {'image_to_text': {'r1': 31.4}}}
    metrics['distillation'] = {'teacher': {**side, 'choice': {'macro': 97.1}}, 'student': side}
    (run / 'metrics.json').write_text(json.dumps(metrics))
    page = PageReader(write_report(run).read_text(encoding='utf-8'))
    assert page.text.count('Teacher and student') == 1 and 97.1 not in page.numbers  # the student has no such number
    assert all(page.numbers.count(value) == 2 for value in (12345, 77.7, 31.4))
    assert page.text.index('student, cosine') < page.text.index('teacher, cosine')
