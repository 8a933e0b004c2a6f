"""The main job end to end on generated scenes: ``bash tools/quickstart.sh`` runs this.

Draws scenes, packs them, trains flat CLIP (sentence-global only) and hierarchical alignment with the same encoders,
data and epochs, evaluates both on held-out combinations, and writes the report. Some four minutes on two CPU cores.
"""
import argparse
import json
import shutil
import time
from pathlib import Path

from hcma import cli
from hcma.data.meta import META
from hcma.data.scenes import write_scenes
from hcma.data.sources import Options, read_pairs
from hcma.data.whole import require_free
from hcma.recipe_io import load_recipe

RECIPE = Path(__file__).parent / 'configs' / 'scenes.yaml'
SCENES = {'train': 12000, 'val': 200, 'test': 1500}
RETRIEVAL_IMAGES = 500
RUNS = {'flat': ['loss.levels=[sentence_global]'], 'hierarchical': []}


def main():
    """Run every stage that is not done yet, and end with the table and the report's path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/quickstart', metavar='DIR', help='default: %(default)s')
    out = Path(parser.parse_args().out)
    started = time.perf_counter()
    data = prepare(out)
    results = {name: run(out / name, name, data, overrides) for name, overrides in RUNS.items()}
    finish(out, results, started)


def prepare(out):
    """Draw the scenes and pack each split; returns the folder of packs."""
    scenes, data = out / 'scenes', out / 'data'
    say('1/4 scenes and data')
    if not (scenes / 'choices_test.jsonl').exists():
        write_scenes(scenes, **SCENES)
    from hcma.data.pack import pack
    for split in ('train', 'test'):
        if not (data / split / META).exists():
            require_free(data / split, False, META)
            data.mkdir(exist_ok=True)
            pairs, rejects = read_pairs(scenes / f'{split}.jsonl', 'jsonl', Options(None, None, None, None))
            pack(pairs, data / split, rejects, f'{split}.jsonl')
    return data


def run(run_dir, name, data, overrides):
    """Train one model, or go on where an earlier start stopped, and evaluate it."""
    from hcma.evaluation.tasks import Evaluation
    from hcma.training.run_folder import update_metrics
    from hcma.training.trainer import train
    say(f'{2 + list(RUNS).index(name)}/4 {name}')
    recipe = load_recipe(RECIPE, [f'name={name}', f'data.train={data / "train"}', *overrides])
    if not train(recipe, run_dir, resume=True):
        raise KeyboardInterrupt
    evaluation = Evaluation(run_dir)
    results = {'retrieval': evaluation.retrieval(data / 'test', RETRIEVAL_IMAGES),
               'choice': evaluation.choice(data.parent / 'scenes' / 'choices_test.jsonl')}
    update_metrics(run_dir, **results)
    return {'name': name, **results, **json.loads((run_dir / 'metrics.json').read_text())['training']}


def finish(out, results, started):
    """Print both models side by side and write the report of the hierarchical one."""
    from hcma.report import write_report
    say('4/4 report')
    run_dir = out / 'hierarchical'
    (run_dir / 'examples' / 'comparison.json').write_text(json.dumps({'rows': list(results.values())}))
    report = shutil.copy(write_report(run_dir), out / 'report.html')
    print(f'\n{table(results)}\n\n{time.perf_counter() - started:.0f} s in all; report: {report}')


def table(results):
    """One column a model, one row a number."""
    from hcma.evaluation.table import align
    rows = [['', *results]]
    for way, label in (('image_to_text', 'image→text'), ('text_to_image', 'text→image')):
        rows.append([f'retrieval {label} R@1, {RETRIEVAL_IMAGES} images']
                    + [f'{result["retrieval"][way]["r1"]:.1f}' for result in results.values()])
    first = next(iter(results.values()))
    for kind in first['choice']['types']:
        rows.append([f'choice: {kind}'] + [f'{result["choice"]["types"][kind]:.1f}' for result in results.values()])
    rows.append(['choice: macro (chance 50)'] + [f'{result["choice"]["macro"]:.1f}' for result in results.values()])
    rows.append(['training images/s'] + [f'{result["images_per_s"]:.0f}' for result in results.values()])
    return align(rows)


def say(stage):
    """Announce a stage."""
    print(f'== {stage}', flush=True)


if __name__ == '__main__':
    cli.run(main)
