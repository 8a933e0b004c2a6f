"""The main job end to end on generated scenes: ``bash tools/quickstart.sh`` runs this.

Draws scenes, packs them, trains flat CLIP (sentence-global only) and hierarchical alignment with the same encoders,
data and epochs, evaluates both on held-out combinations, and writes the report. The two train side by side, each on
cores of its own.
"""
import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from hcma import cli
from hcma.bench.scenes import draw_and_pack
from hcma.errors import InputError
from hcma.processes import core_sets, start, stopped_together
from hcma.recipe_io import load_recipe

RECIPE = Path(__file__).parent / 'configs' / 'scenes.yaml'
SCENES = {'train': 12000, 'val': 200, 'test': 1000}
RETRIEVAL_IMAGES = 500
RUNS = {'flat': ['loss.levels=[sentence_global]'], 'hierarchical': []}
SHOWN = 'hierarchical'  # whose progress is shown, and whose report is written


def main():
    """Run every stage that is not done yet, and end with the table and the report's path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/quickstart', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--only', choices=RUNS, help='train and evaluate one model, on scenes that are packed already')
    arguments = parser.parse_args()
    out = Path(arguments.out)
    if arguments.only:
        return run(out, arguments.only)
    started = time.perf_counter()
    say('1/3 drawing scenes')
    draw_and_pack(out, **SCENES)
    run_side_by_side(out)
    finish(out, started)
    return 0


def run_side_by_side(out):
    """Train and evaluate all models at once, each in a process of its own."""
    say(f'2/3 training {" and ".join(RUNS)} (the progress is that of {SHOWN}; the other\'s is in {out}/*.log)')
    sets = core_sets(len(RUNS))
    processes = {}
    for number, name in enumerate(RUNS):
        command = [sys.executable, __file__, '--out', str(out), '--only', name]
        processes[name] = start(command, sets[number % len(sets)], None if name == SHOWN else out / f'{name}.log')
    with stopped_together(processes.values()):  # they stop after the step, with a checkpoint
        codes = {name: process.wait() for name, process in processes.items()}
    for name, code in codes.items():
        if code:
            where = '' if name == SHOWN else f'; see {out / name}.log'
            raise InputError(f'training {name} ended with exit code {code}{where}')


def run(out, name):
    """Train one model, or go on where an earlier start stopped, and evaluate it; returns an exit code."""
    from hcma.evaluation.tasks import Evaluation
    from hcma.training.run_folder import update_metrics
    from hcma.training.trainer import train
    recipe = load_recipe(RECIPE, [f'name={name}', f'data.train={out / "data" / "train"}', *RUNS[name]])
    if not train(recipe, out / name, resume=True):
        return 130
    evaluation = Evaluation(out / name)
    update_metrics(out / name, retrieval=evaluation.retrieval(out / 'data' / 'test', RETRIEVAL_IMAGES),
                   choice=evaluation.choice(out / 'scenes' / 'choices_test.jsonl'))
    return 0


def finish(out, started):
    """Print both models side by side and write the report."""
    from hcma.report import write_report
    say('3/3 report')
    results = [{'name': name, **json.loads((out / name / 'metrics.json').read_text())} for name in RUNS]
    for result in results:
        result['seconds'] = result['training']['seconds']
    (out / SHOWN / 'examples' / 'comparison.json').write_text(json.dumps({'rows': results}))
    report = shutil.copy(write_report(out / SHOWN), out / 'report.html')
    print(f'\n{table(results)}\n\n{time.perf_counter() - started:.0f} s in all; report: {report}')


def table(results):
    """One column a model, one row a number."""
    from hcma.columns import align
    rows = [['', *RUNS]]
    for way, label in (('image_to_text', 'image→text'), ('text_to_image', 'text→image')):
        rows.append([f'retrieval {label} R@1, {RETRIEVAL_IMAGES} images']
                    + [f'{result["retrieval"][way]["r1"]:.1f}' for result in results])
    for kind in results[0]['choice']['types']:
        rows.append([f'choice: {kind}'] + [f'{result["choice"]["types"][kind]:.1f}' for result in results])
    rows.append(['choice: macro (chance 50)'] + [f'{result["choice"]["macro"]:.1f}' for result in results])
    rows.append(['training images/s'] + [f'{result["training"]["images_per_s"]:.0f}' for result in results])
    return align(rows)


def say(stage):
    """Announce a stage."""
    print(f'== {stage}', flush=True)


if __name__ == '__main__':
    cli.run(main)
