"""What each part of hierarchical alignment gives over flat CLIP: ``recipes/alignment.py [--out DIR] [--quick]``.

Every variant has the same encoders, data and directions. They train for the same number of epochs, and flat CLIP also
for as long as the full model takes. Each is measured on held-out scenes: choices by type, twins, retrieval, and
questions answered by a head on the frozen image encoder. Several seeds give a spread. Runs that are done are kept:
start again to go on. Writes DIR/alignment.json, DIR/alignment.md and DIR/alignment.png.
"""
import argparse
import json
import sys
import time
from collections import deque
from pathlib import Path

from hcma import cli
from hcma.data.meta import META
from hcma.data.scenes import write_scenes
from hcma.data.sources import read_pairs
from hcma.errors import InputError
from hcma.processes import core_sets, start, stopped_together
from hcma.recipe_io import load_recipe

CONFIGS = Path(__file__).parent / 'configs'
LOCAL = 'loss.levels=[sentence_global, word_patch]'
NEGATIVES = 'data.negatives=data'
VARIANTS = {
    'flat': ['loss.levels=[sentence_global]'],
    'flat + negatives': ['loss.levels=[sentence_global]', NEGATIVES],
    'flat + negatives, equal time': ['loss.levels=[sentence_global]', NEGATIVES],
    'word-patch': [LOCAL],
    'word-patch, phrase-region': ['loss.levels=[sentence_global, word_patch, phrase_region]'],
    'word-patch + fusion': [LOCAL, 'model.fusion.heads=4'],
    'word-patch + negatives': [LOCAL, NEGATIVES],
    'word-patch + perturbed negatives + twins': [LOCAL, 'data.negatives=perturb', 'data.twins=true'],
}
FULL = 'word-patch + negatives'
HEADS = {'flat': ('global', 'word_patch'), FULL: ('word_patch',)}  # the heads that answer questions, by variant
QUICK = {'variants': ('flat', 'flat + negatives', FULL), 'seeds': 1, 'epochs': 3,
         'scenes': {'train': 6000, 'val': 100, 'test': 500}}
WHOLE = {'variants': tuple(VARIANTS), 'seeds': 3, 'epochs': 13, 'scenes': {'train': 12000, 'val': 200, 'test': 1000}}


def main():
    """Train what is not trained yet, on as many cores as there are, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/alignment', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--quick', action='store_true', help='one seed of three variants, less of everything')
    parser.add_argument('--seeds', type=cli.positive, metavar='N', help='how many (3, quick: 1)')
    parser.add_argument('--only', nargs=3, metavar=('VARIANT', 'SEED', 'EPOCHS'), help='one run, on data that is there')
    arguments = parser.parse_args()
    out, plan = Path(arguments.out), dict(QUICK if arguments.quick else WHOLE)
    if arguments.only:
        variant, seed, epochs = arguments.only
        return run(out, variant, int(seed), int(epochs))
    prepare(out, plan['scenes'])
    seeds = range(arguments.seeds or plan['seeds'])
    by_epochs = [name for name in plan['variants'] if not name.endswith('equal time')]
    run_all(out, [(name, seed, plan['epochs']) for seed in seeds for name in by_epochs])
    run_all(out, [(name, seed, equal_time(out, name, seed, plan['epochs'])) for seed in seeds
                  for name in plan['variants'] if name not in by_epochs])

    from hcma.bench.variants import write_results
    write_results(out, {name: [out / folder(name, seed) for seed in seeds] for name in plan['variants']}, 'alignment')
    return 0


def prepare(out, scenes):
    """Draw and pack the scenes: half of them twins whose captions state a relation."""
    if not (out / 'scenes' / 'twins_test.jsonl').exists():
        write_scenes(out / 'scenes', **scenes, relations=0.5, twins=True, negatives=True)
    for split in ('train', 'test'):
        if not (out / 'data' / split / META).exists():
            from hcma.data.pack import pack
            (out / 'data').mkdir(exist_ok=True)
            pairs, rejects = read_pairs(out / 'scenes' / f'{split}.jsonl', 'jsonl')
            pack(pairs, out / 'data' / split, rejects, f'{split}.jsonl')


def folder(name, seed):
    """The name of a run's folder."""
    return f'{name.replace(" + ", "_").replace(", ", "_").replace(" ", "-")}_{seed}'


def equal_time(out, name, seed, epochs):
    """The epochs of the flat variant ``name`` that take as long as the full model's ``epochs``."""
    rates = [json.loads((out / folder(variant, seed) / 'metrics.json').read_text())['training']['images_per_s']
             for variant in (name.removesuffix(', equal time'), FULL)]
    return round(epochs * rates[0] / rates[1])


def run_all(out, jobs):
    """Run the jobs (variant, seed, epochs), as many at a time as there are cores, each on one of its own."""
    waiting = deque(job for job in jobs if not (out / folder(*job[:2]) / 'done').exists())
    free, running = core_sets(len(jobs)), {}
    with stopped_together(running):
        while waiting or running:
            while waiting and free:
                job, cores = waiting.popleft(), free.pop()
                print(f'== {job[0]}, seed {job[1]}, {job[2]} epochs ({len(waiting)} wait)', flush=True)
                command = [sys.executable, __file__, '--out', str(out), '--only', *map(str, job)]
                running[start(command, cores, out / f'{folder(*job[:2])}.log')] = job, cores
            process = wait_for_one(running)
            job, cores = running.pop(process)
            free.append(cores)
            if process.returncode:
                raise InputError(f'{job[0]}, seed {job[1]} ended with exit code {process.returncode}; see '
                                 f'{out / folder(*job[:2])}.log')


def wait_for_one(processes):
    """The first of the processes that has ended."""
    while True:
        for process in processes:
            if process.poll() is not None:
                return process
        time.sleep(0.5)


def run(out, name, seed, epochs):
    """Train and evaluate one variant; returns an exit code."""
    from hcma.evaluation.tasks import Evaluation
    from hcma.training.run_folder import update_metrics
    from hcma.training.trainer import train
    recipe = load_recipe(CONFIGS / 'alignment.yaml', [
        f'name={name}', f'seed={seed}', f'train.epochs={epochs}', f'data.train={out / "data" / "train"}',
        *VARIANTS[name]])
    run_dir, scenes = out / folder(name, seed), out / 'scenes'
    if not train(recipe, run_dir, resume=True):
        return 130
    evaluation = Evaluation(run_dir)
    update_metrics(run_dir, choice=evaluation.choice(scenes / 'choices_test.jsonl'),
                   twins=evaluation.twins(scenes / 'twins_test.jsonl'),
                   retrieval=evaluation.retrieval(out / 'data' / 'test', 500))
    for head in HEADS.get(name, ()):
        update_metrics(run_dir, **{f'vqa_{head}': answer(run_dir, scenes, head, seed)})
    (run_dir / 'done').touch()
    return 0


def answer(run_dir, scenes, head, seed):
    """Train a head on a run's frozen image encoder and measure it."""
    from hcma.evaluation.vqa import vqa
    from hcma.training.trainer import train
    recipe = load_recipe(CONFIGS / 'vqa_scenes.yaml', [
        f'vqa.checkpoint={run_dir}', f'vqa.head={head}', f'seed={seed}',
        f'data.train={scenes / "questions_train.jsonl"}'])
    train(recipe, run_dir / f'vqa_{head}', resume=True)
    return vqa(run_dir / f'vqa_{head}', scenes / 'questions_test.jsonl')


if __name__ == '__main__':
    cli.run(main)
