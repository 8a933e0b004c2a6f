"""What a teacher gives a small student: teacher, student alone, student distilled; or each of the losses by itself.

    recipes/distillation.py [--out DIR] [--teacher RUN] [--variants NAME ...] [--quick]     on generated scenes
    recipes/distillation.py --out DIR --teacher RUN --train DATA --test DATA_TEST --choices CHOICES.jsonl

Without --teacher one is trained on scenes first. All students have the same model, data, epochs and seeds, those of the
recipe of --config, and train one after the other; alone is without its section distill. Speed is taken in turn with the
teacher's. Runs that are done are kept: start again to go on. Writes distillation.json and distillation.md into DIR.
"""
import argparse
import json
from pathlib import Path

import numpy as np

from hcma import cli
from hcma.bench.scenes import TWINNED, draw_and_pack
from hcma.errors import InputError
from hcma.recipe_io import load_recipe, parse_recipe

CONFIGS = Path(__file__).parent / 'configs'
FALSE_TEXTS = ['data.negatives=data', 'data.twins=true']
SCENES = {'train': 12000, 'val': 500, 'test': 1000}
QUICK = {'train': 2000, 'val': 50, 'test': 200}
RETRIEVAL_IMAGES = 500
NONE = {'features': 'distill.features={}', 'similarity': 'distill.similarity={}', 'attention': 'distill.attention={}',
        'interactive': 'distill.interactive=0'}
ONLY = {part: [off for name, off in NONE.items() if name != part] for part in NONE}
VARIANTS = {'alone': None, 'distilled': [],
            **{f'{part} only': overrides for part, overrides in ONLY.items()},
            **{f'without {part}': [off] for part, off in NONE.items()},
            **{f'temperature {value}': [f'distill.temperature={value}'] for value in (1, 2)},
            'similarity only, temperature 1': [*ONLY['similarity'], 'distill.temperature=1'],
            **{f'own {value}': [f'distill.own={value}'] for value in (0.3, 3)}}
LABELS = {'choice': 'choice, macro', 'image_to_text': 'image→text R@1', 'text_to_image': 'text→image R@1'}


def main():
    """Train what is not trained yet, and write the table."""
    arguments = parse_arguments()
    out = Path(arguments.out)
    data = Data(out, arguments)
    if not arguments.train:
        draw_and_pack(out, **(QUICK if arguments.quick else SCENES), **TWINNED)
    teacher = arguments.teacher
    if teacher is None:
        teacher = trained(out / 'teacher', load_recipe(CONFIGS / 'teacher_scenes.yaml', data.keys(FALSE_TEXTS)))
    paths = [f'distill.teacher={json.dumps(str(teacher))}', f'distill.cache={json.dumps(str(out / "cache"))}']
    results = {'teacher': [], **{name: [] for name in arguments.variants}}
    for seed in range(arguments.seeds or (1 if arguments.quick else 3)):
        for name in arguments.variants:
            keys = data.keys([*data.extra, f'seed={seed}', *paths, *(VARIANTS[name] or [])])
            recipe = load_recipe(data.config, keys)
            run = out / f'{name.replace(" ", "_")}_{seed}'
            trained(run, without_teacher(recipe) if VARIANTS[name] is None else recipe)
            both = measured(run, teacher, data)
            results[name].append(both['student'])
            results['teacher'].append(both['teacher'])
    write(out, results)
    return 0


def parse_arguments():
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/distillation', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--teacher', metavar='RUN', help='a trained run; trained first by default')
    parser.add_argument('--config', default='distill_scenes', metavar='NAME', help='of recipes/configs (%(default)s)')
    parser.add_argument('--variants', nargs='+', choices=VARIANTS, metavar='NAME', default=['alone', 'distilled'],
                        help=f'{", ".join(VARIANTS)}; by default the first two')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the students; may be repeated')
    parser.add_argument('--epochs', type=cli.positive, metavar='N', help='of every run')
    parser.add_argument('--quick', action='store_true', help='one seed, few scenes, two epochs')
    parser.add_argument('--seeds', type=cli.positive, metavar='N', help='how many (3; --quick: 1)')
    parser.add_argument('--train', metavar='DATA', help='pairs of your own, packed by tools/prepare.py')
    parser.add_argument('--test', metavar='DATA', help='packed pairs to retrieve from')
    parser.add_argument('--choices', metavar='JSONL', help='fine-grained choices')
    arguments = parser.parse_args()
    if arguments.train and not (arguments.test and arguments.choices and arguments.teacher):
        raise InputError('--train needs --teacher, --test and --choices as well')
    return arguments


class Data:
    """Where everything is: generated in ``out``, or the user's own."""

    def __init__(self, out, arguments):
        self.config = CONFIGS / f'{arguments.config}.yaml'
        self.train = arguments.train or out / 'data' / 'train'
        self.test = arguments.test or out / 'data' / 'test'
        self.choices = arguments.choices or out / 'scenes' / 'choices_test.jsonl'
        self.extra = [*([] if arguments.train else FALSE_TEXTS), *arguments.overrides]
        epochs = arguments.epochs or (2 if arguments.quick else None)
        self.epochs = [] if epochs is None else [f'train.epochs={epochs}']

    def keys(self, overrides):
        """The overrides of a recipe, with the data."""
        return [f'data.train={json.dumps(str(self.train))}', *self.epochs, *overrides]


def without_teacher(recipe):
    """The same student on its own."""
    values = recipe.model_dump(mode='json')
    return parse_recipe({key: value for key, value in values.items() if key != 'distill'}, 'the student alone')


def trained(run, recipe):
    """The folder ``run`` once ``recipe`` is trained there."""
    from hcma.training.trainer import train
    if not train(recipe, run, resume=True):
        raise InputError(f'{run}: stopped; start again to go on')
    return run


def measured(run, teacher, data):
    """The results of ``side_by_side``, measured unless the run has them already."""
    from hcma.evaluation.side_by_side import side_by_side
    from hcma.training.run_folder import METRICS, update_metrics
    found = json.loads((run / METRICS).read_text(encoding='utf-8')).get('distillation')
    if found is None:
        found = side_by_side(teacher, run, data.test, RETRIEVAL_IMAGES, data.choices)
        update_metrics(run, distillation=found)
    return found


def write(out, results):
    """distillation.json, and as Markdown, also printed, means over seeds with half their range."""
    (out / 'distillation.json').write_text(json.dumps(results, indent=1))
    size = ['parameters', 'image_flops', 'text_flops', 'images_per_s', 'captions_per_s']
    lines = ['| | ' + ' | '.join([*LABELS.values(), *size]) + ' |', '|---' * (len(LABELS) + len(size) + 1) + '|']
    for kind, found in results.items():
        points = [[one['choice']['macro'] for one in found]]
        points += [[one['retrieval'][way]['r1'] for one in found] for way in ('image_to_text', 'text_to_image')]
        cells = [f'{np.mean(values):.1f} ± {(max(values) - min(values)) / 2:.1f}' for values in points]
        cells += [f'{np.median([one["size"][key] for one in found]):,.0f}' for key in size]
        lines.append(f'| {kind} | ' + ' | '.join(cells) + ' |')
    text = '\n'.join(lines)
    (out / 'distillation.md').write_text(text + '\n', encoding='utf-8')
    print(f'\n{text}\n\n{out / "distillation"}.json and .md')


if __name__ == '__main__':
    cli.run(main)
