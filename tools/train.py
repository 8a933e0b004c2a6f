"""Train a model: ``tools/train.py RECIPE --set data.train=DATA --out RUN [--resume]``.

RECIPE is a YAML file such as recipes/configs/flickr8k.yaml, DATA a folder made by tools/prepare.py; for a recipe with
a section vqa, such as recipes/configs/vqa_scenes.yaml, DATA is a JSONL of questions. RUN gets checkpoints, log.jsonl
and report.html. Ctrl-C stops after the current step; --resume goes on from there. Many devices: tools/launch.sh.
"""
import argparse

from hcma import cli
from hcma.data.meta import require_training_data
from hcma.data.questions import require_questions
from hcma.errors import Diverged
from hcma.recipe_io import load_recipe


def main():
    """Check the recipe before anything is loaded, then train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', metavar='RECIPE')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], dest='overrides',
                        help='override a key of the recipe, such as train.epochs=3; may be repeated')
    parser.add_argument('--out', metavar='RUN', required=True, help='the folder of the run')
    parser.add_argument('--resume', action='store_true', help='go on from the newest checkpoint in RUN')
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, arguments.overrides)
    if recipe.vqa is None:
        require_training_data(recipe)
    else:
        require_questions(recipe)

    from hcma import distributed  # what loads MindSpore comes after the checks
    from hcma.report import write_report
    from hcma.training.trainer import train
    try:
        finished = train(recipe, arguments.out, arguments.resume)
    except Diverged:
        if not distributed.is_first():
            return 0
        write_report(arguments.out)  # its curves mark what went wrong
        raise
    if not distributed.is_first():
        return 0  # the first rank says how the run ended; one that failed would end it while it writes
    print(f'{"trained" if finished else "stopped; --resume goes on"}: {write_report(arguments.out)}')
    return 0 if finished else 130


if __name__ == '__main__':
    cli.run(main)
