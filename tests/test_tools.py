"""The main job through its tools: scenes, prepare, train, evaluate, report; and what they say to mistakes."""
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from hcma.data.scenes import write_scenes
from hcma.recipe_io import load_recipe
from helpers.questions import save_aligned, write_questions

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / 'recipes' / 'configs' / 'scenes.yaml'
DISTILL_RECIPE = ROOT / 'recipes' / 'configs' / 'distill_scenes.yaml'
VQA_RECIPE = ROOT / 'recipes' / 'configs' / 'vqa_scenes.yaml'
# A model that compiles in a second.
SMALL = ['model.preset=tiny', 'model.image={stem: patchify, patch_size: 4, depth: 0}',
         'model.text={depth: 0, length: 16}', 'train.batch_size=8', 'train.epochs=2', 'train.lr=1e-2']


@pytest.fixture
def tool(monkeypatch, capsys):
    """``tool(name, *arguments)``: the exit code, stdout and stderr of a tool, run in this process."""
    def run(name, *arguments):
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            runpy.run_path(str(ROOT / 'tools' / f'{name}.py'), run_name='__main__')
        return (exit_.value.code, *capsys.readouterr())
    return run


def number(value):
    """As the tables and the report write it."""
    return f'{value:.1f}'


@pytest.mark.graph
def test_the_main_job_from_scenes_to_report(tool, tmp_path):
    scenes, run = tmp_path / 'scenes', tmp_path / 'run'
    write_scenes(scenes, train=40, val=8, test=12, relations=0.5, twins=True, workers=1)
    for split, count in (('train', 40), ('test', 12)):
        code, out, _ = tool('prepare', scenes / f'{split}.jsonl', '--out', tmp_path / split)
        assert code == 0 and f'{count} pairs' in out

    sets = [part for key in [f'data.train={tmp_path / "train"}', *SMALL] for part in ('--set', key)]
    code, out, _ = tool('train', RECIPE, *sets, '--out', run)
    assert code == 0 and f'trained: {run / "report.html"}' in out
    assert len((run / 'log.jsonl').read_text().splitlines()) == 10

    code, out, _ = tool('evaluate', run, '--data', tmp_path / 'test', '--task', 'retrieval', '--json',
                        tmp_path / 'retrieval.json')
    retrieval = json.loads((tmp_path / 'retrieval.json').read_text())['retrieval']
    assert code == 0 and '12 images, 48 captions' in out
    for way in ('image_to_text', 'text_to_image'):
        assert 0 <= retrieval[way]['r1'] <= retrieval[way]['r5'] <= retrieval[way]['r10'] <= 100
        assert number(retrieval[way]['r10']) in out

    code, out, _ = tool('evaluate', run / 'checkpoints' / 'step_00000010', '--data', scenes / 'choices_test.jsonl',
                        '--task', 'choice', '--fit-weights', scenes / 'choices_val.jsonl', '--json',
                        tmp_path / 'choice.json')
    choice = json.loads((tmp_path / 'choice.json').read_text())['choice']
    assert code == 0 and all(kind in out for kind in choice['types'])
    assert choice['macro'] == pytest.approx(sum(choice['types'].values()) / len(choice['types']), abs=0.01)
    assert sum(choice['weights'].values()) == pytest.approx(1)

    code, out, _ = tool('evaluate', run, '--data', scenes / 'twins_test.jsonl', '--task', 'twins', '--json',
                        tmp_path / 'twins.json')
    twins = json.loads((tmp_path / 'twins.json').read_text())['twins']
    assert code == 0 and '3 pairs of twins' in out and twins['pairs'] == 3
    assert 0 <= twins['group'] <= min(twins['text'], twins['image']) <= 100
    ratings = [{'image': f'images/test/{number:06d}.jpg', 'caption': 'a red disc', 'scores': [number % 3, number % 2]}
               for number in range(12)]
    (scenes / 'ratings.jsonl').write_text('\n'.join(map(json.dumps, [*ratings, {'image': 'none.jpg'}])))
    code, out, err = tool('evaluate', run, '--data', scenes / 'ratings.jsonl', '--task', 'judgement', '--json',
                          tmp_path / 'judgement.json')
    judgement = json.loads((tmp_path / 'judgement.json').read_text())['judgement']
    assert code == 0 and '12 pairs, 24 ratings' in out and '1 rows skipped' in err
    assert judgement['pairs'] == 12 and number(judgement['kendall_b']) in out

    (tmp_path / 'classes.txt').write_text('disc\n方块\n')
    (tmp_path / 'templates.txt').write_text('a {}\nno {}\n')
    labelled = [{'image': row['image'], 'label': 'disc'} for row in ratings]
    (scenes / 'labels.jsonl').write_text('\n'.join(map(json.dumps, labelled)))
    code, out, _ = tool('evaluate', run, '--data', scenes / 'labels.jsonl', '--task', 'zero-shot', '--classes',
                        tmp_path / 'classes.txt', '--templates', tmp_path / 'templates.txt')
    assert code == 0 and '12 pictures, 2 classes, 2 templates' in out

    metrics = json.loads((run / 'metrics.json').read_text())
    assert (metrics['retrieval'], metrics['choice'], metrics['twins']) == (retrieval, choice, twins)
    shot = metrics['zero_shot']
    assert metrics['training']['steps'] == 10
    report = (run / 'report.html').read_text()
    assert 'alt="which class was taken for which"' in report and number(shot['top1']) in out
    shown = [shot['levels']['word_patch']['top1'], retrieval['image_to_text']['r1'], retrieval['text_to_image']['r10'],
             choice['macro'], *choice['types'].values()]
    assert [value for value in shown if number(value) not in report] == []
    assert {path.name for path in (run / 'examples').glob('*.json')} == {'heatmaps.json', 'retrieval.json',
                                                                         'choices.json'}


@pytest.mark.graph
def test_every_part_of_the_alignment_goes_through_the_tools(tool, tmp_path):
    scenes, run = tmp_path / 'scenes', tmp_path / 'run'
    write_scenes(scenes, train=16, val=0, test=10, negatives=True, workers=1)
    for split in ('train', 'test'):
        assert tool('prepare', scenes / f'{split}.jsonl', '--out', tmp_path / split)[0] == 0
    keys = [f'data.train={tmp_path / "train"}', *SMALL, 'model.fusion.heads=2', 'loss.balance=uncertainty',
            'model.image.size=[16, 24]',
            'loss.levels=[sentence_global, word_patch, phrase_region]', 'data.negatives=data', 'train.epochs=1']
    assert tool('train', RECIPE, *(part for key in keys for part in ('--set', key)), '--out', run)[0] == 0
    code, out, _ = tool('evaluate', run, '--data', tmp_path / 'test', '--task', 'retrieval')
    assert code == 0 and 'phrase_region' in out and 'reranked' in out
    attention = json.loads((run / 'examples' / 'attention.json').read_text())
    assert {example['name'] for example in attention} == {'fusion block 1'}
    assert np.shape(attention[0]['words'][0]['heat']) == (4, 6)
    assert 'fusion block 1' in (run / 'report.html').read_text()
    code, out, _ = tool('evaluate', run, '--data', scenes / 'choices_test.jsonl', '--task', 'choice')
    assert code == 0 and 'matching' in out.splitlines()[0]
    metrics, report = json.loads((run / 'metrics.json').read_text()), (run / 'report.html').read_text()
    assert metrics['retrieval']['text_to_image'] == metrics['retrieval']['levels']['reranked']['text_to_image']
    assert 're-ranked' in report and 'Learned weights' in report and 'phrase–region' in report


@pytest.mark.graph
def test_questions_are_answered_through_the_tools(tool, tmp_path, make_recipe):
    data = write_questions(tmp_path)
    model = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
    aligned = save_aligned(tmp_path / 'aligned', make_recipe(model=model))
    keys = [f'data.train={data}', f'vqa.checkpoint={aligned}', 'train.batch_size=6', 'train.epochs=2']
    sets = [part for key in keys for part in ('--set', key)]
    code, out, _ = tool('train', VQA_RECIPE, *sets, '--out', tmp_path / 'run')
    assert code == 0 and 'trained: ' in out
    code, out, _ = tool('evaluate', tmp_path / 'run', '--data', data, '--task', 'vqa', '--json', tmp_path / 'vqa.json')
    result = json.loads((tmp_path / 'vqa.json').read_text())['vqa']
    assert code == 0 and number(result['accuracy']) in out and result['majority_types']['exist'] == 66.67
    code, _, err = tool('evaluate', tmp_path / 'run', '--data', data, '--task', 'choice')
    assert code == 2 and 'answers questions' in err


@pytest.mark.graph
@pytest.mark.parametrize('arguments, message', [
    (['--data', 'x', '--task', 'retrieval'], 'nowhere: neither a checkpoint nor a run with one'),
    (['--data', 'x', '--task', 'retrieval', '--limit', '0'], 'argument --limit: 0 is not above 0'),
    (['--data', 'x', '--task', 'guess'], "invalid choice: 'guess'"),
    (['--task', 'choice'], 'arguments are required: --data'),
    (['--data', 'x', '--task', 'zero-shot', '--classes', 'c'], '--templates: --task zero-shot needs it'),
    (['--data', 'x', '--task', 'choice', '--out', 'o'], '--out: is for --task embed; leave it out'),
])
def test_evaluate_refuses_mistakes_with_exit_code_two(arguments, message, tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = tool('evaluate', 'nowhere', *arguments)
    assert (code, out) == (2, '') and message in err
    assert list(tmp_path.iterdir()) == []


def test_prepare_refuses_mistakes_with_exit_code_two(tool, tmp_path):
    for arguments, message in ((['none.jsonl'], 'none.jsonl'), ([tmp_path, '--max-side', '0'], '0 is not above 0')):
        code, out, err = tool('prepare', *arguments, '--out', tmp_path / 'data')
        assert (code, out) == (2, '') and message in err


@pytest.mark.parametrize('finished, code, said', [(True, 0, 'trained: '), (False, 130, 'stopped; --resume goes on: ')])
def test_train_says_whether_it_reached_the_end(finished, code, said, tool, tmp_path, monkeypatch):
    (tmp_path / 'meta.json').write_text(json.dumps({'format': 2, 'images': 64, 'shards': []}))
    monkeypatch.setattr('hcma.training.trainer.train', lambda recipe, out, resume: Path(out).mkdir() or finished)
    result = tool('train', RECIPE, '--set', f'data.train={tmp_path}', '--out', tmp_path / 'run')
    assert result[0] == code and result[1].startswith(said)


def test_a_fault_of_ours_is_no_exit_code_two(tool, tmp_path, monkeypatch):
    (tmp_path / 'meta.json').write_text(json.dumps({'format': 2, 'images': 64, 'shards': []}))

    def fault(*arguments):
        raise ZeroDivisionError
    monkeypatch.setattr('hcma.training.trainer.train', fault)
    monkeypatch.setattr(sys, 'argv', ['train', str(RECIPE), '--set', f'data.train={tmp_path}', '--out', 'run'])
    with pytest.raises(ZeroDivisionError):
        runpy.run_path(str(ROOT / 'tools' / 'train.py'), run_name='__main__')


@pytest.mark.graph
def test_a_student_is_distilled_and_compared_through_the_tool(tool, tmp_path):
    scenes, student = tmp_path / 'scenes', tmp_path / 'student'
    write_scenes(scenes, train=16, val=0, test=10, workers=1)
    for split in ('train', 'test'):
        assert tool('prepare', scenes / f'{split}.jsonl', '--out', tmp_path / split)[0] == 0
    aligned = save_aligned(tmp_path / 'teacher', load_recipe(RECIPE, [*SMALL, 'model.image.size=24']))
    keys = [f'data.train={tmp_path / "train"}', *SMALL, 'distill.augmentations=1']
    arguments = [part for key in keys for part in ('--set', key)]
    arguments += ['--teacher', aligned, '--out', student, '--cache', tmp_path / 'cache']
    code, out, _ = tool('distill', DISTILL_RECIPE, *arguments, '--retrieval', tmp_path / 'test', '--choice',
                        scenes / 'choices_test.jsonl')
    assert code == 0 and out.splitlines()[0].split()[:2] == ['teacher', 'student'] and '10 images' in out
    metrics = json.loads((student / 'metrics.json').read_text())
    sides = metrics['distillation']
    assert (metrics['retrieval'], metrics['choice']) == (sides['student']['retrieval'], sides['student']['choice'])
    assert number(sides['teacher']['choice']['macro']) in out and f'{sides["teacher"]["size"]["parameters"]:,}' in out
    assert metrics['training']['cache']['samples'] == 32
    assert not (aligned / 'examples').exists()
    report = (student / 'report.html').read_text()
    assert report.count('student, cosine') == report.count('teacher, cosine') > 0


def test_distill_refuses_mistakes_with_exit_code_two(tool, tmp_path):
    for recipe, message in ((RECIPE, 'no loss against the teacher has a weight'),
                            (DISTILL_RECIPE, 'data.train: is missing')):
        code, out, err = tool('distill', recipe, '--teacher', tmp_path, '--out', tmp_path / 'run')
        assert (code, out) == (2, '') and message in err
