"""The comparison of variants shows every seed, the mean and the spread, and leaves open what was not measured."""
import json

from PIL import Image

from hcma.bench.variants import table, write_results


def run(folder, macro, **more):
    folder.mkdir()
    metrics = {'choice': {'macro': macro, 'types': {'count': macro - 10}},
               'training': {'images_per_cpu_s': 500.0, 'steps': 300},
               'retrieval': {way: {'r1': 12.5} for way in ('image_to_text', 'text_to_image')}, **more}
    (folder / 'metrics.json').write_text(json.dumps(metrics))
    return folder


def test_table_picture_and_numbers(tmp_path, capsys):
    runs = {'flat': [run(tmp_path / 'a', 60.0), run(tmp_path / 'b', 64.0)],
            'full': [run(tmp_path / 'c', 80.0, twins={'group': 90.0}, vqa_global={'accuracy': 70.0})]}
    write_results(tmp_path, runs, 'parts')
    rows = (tmp_path / 'parts.md').read_text(encoding='utf-8').splitlines()
    assert [cell.strip() for cell in rows[0].split('|')[2:5]] == ['macro', 'count', 'image→text R@1']
    assert rows[2].startswith('| flat | 62.0 ± 2.0 | 52.0 ± 2.0 | 12.5 ± 0.0')
    assert '2.0 ± 0.0 | 300.0 ± 0.0' in rows[2]
    assert rows[3].startswith('| full | 80.0 | 70.0 | 12.5') and '90.0' in rows[3] and '70.0' in rows[3]
    assert [seed['macro'] for seed in json.loads((tmp_path / 'parts.json').read_text())['flat']] == [60, 64]
    assert Image.open(tmp_path / 'parts.png').size[0] > 400
    assert rows[2] in capsys.readouterr().out


def test_what_was_not_measured_is_left_open():
    rows = table({'one': [{'macro': 1.0}], 'other': [{'group': 2.0}]}).splitlines()
    assert rows[2:] == ['| one | 1.0 |  |', '| other |  | 2.0 |']
