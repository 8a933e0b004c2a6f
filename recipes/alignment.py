"""What each part of hierarchical alignment gives over flat CLIP.

    recipes/alignment.py [--out DIR] [--quick]                                     on generated scenes
    recipes/alignment.py --out DIR --config flickr8k --train DATA --test DATA_TEST --choices CHOICES.jsonl

Every variant has the same encoders, data and directions. They train for the same number of epochs, and flat CLIP also
for as much CPU time as the full model takes. Each is measured by fine-grained choices and retrieval; on scenes, whose
test combinations are never trained on, also by twins and by questions that a head on the frozen image encoder answers,
and there the weights of the levels are fitted on validation choices.
Several seeds give a spread. Runs that are done are kept: start again to go on. Writes alignment.json, alignment.md and
alignment.png into DIR.
"""
import argparse
import json
import sys
from pathlib import Path

from hcma import cli
from hcma.bench.scenes import TWINNED, draw_and_pack
from hcma.errors import InputError
from hcma.processes import run_all
from hcma.recipe_io import load_recipe

CONFIGS = Path(__file__).parent / 'configs'
FLAT, LOCAL = 'loss.levels=[sentence_global]', 'loss.levels=[sentence_global, word_patch]'
NEGATIVES, PERTURBED, TWINS = 'data.negatives=data', 'data.negatives=perturb', 'data.twins=true'
VARIANTS = {
    'flat': [FLAT],
    'flat + negatives, twins': [FLAT, NEGATIVES, TWINS],
    'flat + negatives, twins, equal time': [FLAT, NEGATIVES, TWINS],
    'word-patch': [LOCAL],
    'word-patch, phrase-region': ['loss.levels=[sentence_global, word_patch, phrase_region]'],
    'word-patch + fusion': [LOCAL, 'model.fusion.heads=4'],
    'word-patch + negatives, twins': [LOCAL, NEGATIVES, TWINS],
    'word-patch + perturbed, twins': [LOCAL, PERTURBED, TWINS],
    'flat, equal time': [FLAT],
    'flat + perturbed': [FLAT, PERTURBED],
    'word-patch + perturbed': [LOCAL, PERTURBED],
}
FULL = 'word-patch + negatives, twins'
SCENES = {'variants': list(VARIANTS)[:8], 'full': FULL, 'seeds': 3, 'epochs': 18,
          'scenes': {'train': 12000, 'val': 500, 'test': 1000}}
QUICK = {'variants': ['flat', 'flat + negatives, twins', FULL], 'full': FULL, 'seeds': 1, 'epochs': 6,
         'scenes': {'train': 12000, 'val': 200, 'test': 500}}
OWN = {'variants': ['flat', 'flat, equal time', 'word-patch', 'flat + perturbed', 'word-patch + perturbed'],
       'full': 'word-patch', 'seeds': 1}
RETRIEVAL_IMAGES = 500
HEADS = {'flat': ('global', 'word_patch'), FULL: ('word_patch',)}  # that answer questions


def main():
    """Train what is not trained yet, on as many cores as there are, and write the tables."""
    arguments = parse_arguments()
    out = Path(arguments.out)
    data = Data(out, arguments)
    if arguments.only:
        variant, seed, epochs = arguments.only
        return run(out, data, variant, int(seed), int(epochs))
    plan = dict(OWN if arguments.train else QUICK if arguments.quick else SCENES)
    seeds = range(arguments.seeds or plan['seeds'])
    epochs = arguments.epochs or plan.get('epochs') or load_recipe(data.config).train.epochs
    if not arguments.train:
        draw_and_pack(out, **plan['scenes'], **TWINNED)
    variants = arguments.variants or plan['variants']
    at_once = [name for name in variants if not name.endswith(', equal time')]
    train_all(out, [(name, seed, epochs) for seed in seeds for name in at_once])
    train_all(out, [(name, seed, equal_time(out, name, plan['full'], seed, epochs)) for seed in seeds
                    for name in variants if name not in at_once])

    from hcma.bench.variants import write_results
    write_results(out, {name: [out / folder(name, seed) for seed in seeds] for name in variants}, 'alignment')
    return 0


def parse_arguments():
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/alignment', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--quick', action='store_true', help='one seed of three variants, fewer epochs')
    parser.add_argument('--seeds', type=cli.positive, metavar='N', help='how many (3; --quick and --train: 1)')
    parser.add_argument('--epochs', type=cli.positive, metavar='N', help='of every variant')
    parser.add_argument('--variants', nargs='+', choices=VARIANTS, metavar='NAME', help=', '.join(VARIANTS))
    parser.add_argument('--config', default='alignment', metavar='NAME', help='of recipes/configs (%(default)s)')
    parser.add_argument('--train', metavar='DATA', help='pairs of your own, packed by tools/prepare.py')
    parser.add_argument('--test', metavar='DATA', help='packed pairs to retrieve from')
    parser.add_argument('--choices', metavar='JSONL', help='fine-grained choices')
    parser.add_argument('--only', nargs=3, metavar=('VARIANT', 'SEED', 'EPOCHS'), help='one run, on data that is there')
    arguments = parser.parse_args()
    if arguments.train and not (arguments.test and arguments.choices):
        raise InputError('--train needs --test and --choices as well')
    return arguments


class Data:
    """Where everything is: generated in ``out``, or the user's own."""

    def __init__(self, out, arguments):
        self.config = CONFIGS / f'{arguments.config}.yaml'
        self.scenes = None if arguments.train else out / 'scenes'
        self.question_epochs = 1 if arguments.quick else 4
        self.train = arguments.train or out / 'data' / 'train'
        self.test = arguments.test or out / 'data' / 'test'
        self.choices = arguments.choices or self.scenes / 'choices_test.jsonl'


def folder(name, seed):
    """The name of a run's folder."""
    return '_'.join([*name.replace('+', '').replace(',', '').split(), str(seed)])


def equal_time(out, name, full, seed, epochs):
    """The epochs of the flat variant ``name`` that take as much CPU time as ``epochs`` of the variant ``full``."""
    rates = [json.loads((out / folder(variant, seed) / 'metrics.json').read_text())['training']['images_per_cpu_s']
             for variant in (name.removesuffix(', equal time'), full)]
    return round(epochs * rates[0] / rates[1])


def train_all(out, jobs):
    """Run the jobs (variant, seed, epochs) that are not done."""
    run_all([(f'{job[0]}, seed {job[1]}, {job[2]} epochs', [sys.executable, *sys.argv, '--only', *map(str, job)],
              out / f'{folder(*job[:2])}.log') for job in jobs if not (out / folder(*job[:2]) / 'done').exists()])


def run(out, data, name, seed, epochs):
    """Train and evaluate one variant; returns an exit code."""
    from hcma.evaluation.tasks import Evaluation
    from hcma.training.run_folder import update_metrics
    from hcma.training.trainer import train
    recipe = load_recipe(data.config, [f'name={name}', f'seed={seed}', f'train.epochs={epochs}',
                                       f'data.train={data.train}', *VARIANTS[name]])
    run_dir = out / folder(name, seed)
    if not train(recipe, run_dir, resume=True):
        return 130
    evaluation = Evaluation(run_dir)
    if data.scenes:
        evaluation.fit_weights(data.scenes / 'choices_val.jsonl')
    update_metrics(run_dir, choice=evaluation.choice(data.choices),
                   retrieval=evaluation.retrieval(data.test, RETRIEVAL_IMAGES))
    if data.scenes:
        update_metrics(run_dir, twins=evaluation.twins(data.scenes / 'twins_test.jsonl'))
        for head in HEADS.get(name, ()):
            update_metrics(run_dir, **{f'vqa_{head}': answer(run_dir, data, head, seed)})
    (run_dir / 'done').touch()
    return 0


def answer(run_dir, data, head, seed):
    """Train a head on a run's frozen image encoder and measure it."""
    from hcma.evaluation.vqa import vqa
    from hcma.training.trainer import train
    recipe = load_recipe(CONFIGS / 'vqa_scenes.yaml', [
        f'vqa.checkpoint={run_dir}', f'vqa.head={head}', f'seed={seed}', f'train.epochs={data.question_epochs}',
        f'data.train={data.scenes / "questions_train.jsonl"}'])
    train(recipe, run_dir / f'vqa_{head}', resume=True)
    return vqa(run_dir / f'vqa_{head}', data.scenes / 'questions_test.jsonl')


if __name__ == '__main__':
    cli.run(main)
