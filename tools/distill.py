"""Train a student from a teacher: ``tools/distill.py RECIPE --teacher RUN [--out DIR] [--cache DIR] [--resume]``.

RECIPE is a YAML file with a section distill, such as recipes/configs/distill_scenes.yaml; RUN a trained run or one of
its checkpoints. --cache DIR keeps the teacher's features, so that later epochs and other students never run it. At the
end both are evaluated side by side, over --retrieval DATA (a folder made by tools/prepare.py; without it over the first
pairs of the training) and --choice FILE (a JSONL with image, caption, negative_caption, type).
"""
import argparse
import json
from pathlib import Path

from hcma import cli
from hcma.data.meta import require_training_data
from hcma.errors import Diverged
from hcma.recipe_io import load_recipe

TRAINED_ON = 1000  # pairs of the training that are evaluated where there are no others


def main():
    """Check the recipe before anything is loaded, train the student, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', metavar='RECIPE')
    parser.add_argument('--teacher', metavar='RUN', required=True)
    parser.add_argument('--out', metavar='DIR', type=Path, help="the folder of the student's run; runs/NAME by default")
    parser.add_argument('--cache', metavar='DIR', help="the folder of the teacher's features")
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe, such as train.epochs=3; may be repeated')
    parser.add_argument('--resume', action='store_true', help='go on from the newest checkpoint in DIR')
    parser.add_argument('--retrieval', metavar='DATA', help='evaluate retrieval over these pairs')
    parser.add_argument('--choice', metavar='FILE', help='evaluate these choices too')
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, [*arguments.overrides, *_paths(arguments)])
    require_training_data(recipe)
    return _distill(recipe, arguments)


def _paths(arguments):
    """What the options say, as overrides of the recipe."""
    given = {'teacher': arguments.teacher, 'cache': arguments.cache}
    return [f'distill.{key}={json.dumps(path)}' for key, path in given.items() if path is not None]


def _distill(recipe, arguments):
    from hcma.evaluation.side_by_side import side_by_side, table  # what loads MindSpore comes after the checks
    from hcma.report import write_report
    from hcma.training.run_folder import update_metrics
    from hcma.training.trainer import train
    out = arguments.out or Path('runs') / recipe.name
    try:
        finished = train(recipe, out, arguments.resume)
    except Diverged:
        write_report(out)  # its curves mark what went wrong
        raise
    if not finished:
        print(f'stopped; --resume goes on: {write_report(out)}')
        return 130
    data, limit, where = arguments.retrieval, None, ''
    if data is None:
        data, limit, where = recipe.data.train, TRAINED_ON, ' of the training; give others with --retrieval DATA'
    results = side_by_side(arguments.teacher, out, data, limit, arguments.choice)
    student = results['student']
    print(f'{table(results)}\n{student["retrieval"]["images"]} images{where}')
    update_metrics(out, distillation=results, **{task: student[task] for task in student if task != 'size'})
    print(f'trained: {write_report(out)}')
    return 0


if __name__ == '__main__':
    cli.run(main)
