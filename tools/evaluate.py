"""Evaluate a trained run: ``tools/evaluate.py RUN --data DATA --task retrieval|choice|twins [--json FILE]``.

For retrieval DATA is a folder made by tools/prepare.py, for choice a JSONL with image, caption, negative_caption and
type, for twins a JSONL with images and captions, two of each, the first only true of the first. Prints a table, adds
the numbers to RUN/metrics.json and draws RUN/report.html anew.
"""
import argparse
import json

from hcma import cli
from hcma.errors import InputError


def main():
    """Run one task and show, store and draw its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run', metavar='RUN', help='the folder of a run, or one of its checkpoints')
    parser.add_argument('--data', metavar='DATA', required=True)
    parser.add_argument('--task', choices=('retrieval', 'choice', 'twins'), required=True)
    parser.add_argument('--limit', metavar='N', type=cli.positive, help='retrieval: take only the first N images')
    parser.add_argument('--fit-weights', metavar='VAL', help='choose the weights of the levels on this validation '
                        'data (a packed folder or a JSONL of choices) instead of the recipe')
    parser.add_argument('--json', metavar='FILE', help='write the numbers there too')
    arguments = parser.parse_args()

    from hcma.evaluation.table import choice_table, retrieval_table, twins_table
    from hcma.evaluation.tasks import Evaluation
    from hcma.report import write_report
    from hcma.training.run_folder import run_of, update_metrics
    evaluation = Evaluation(arguments.run)
    if arguments.fit_weights:
        evaluation.fit_weights(arguments.fit_weights)
    if arguments.task == 'retrieval':
        result = evaluation.retrieval(arguments.data, arguments.limit)
        print(retrieval_table(result))
    elif arguments.task == 'twins':
        result = evaluation.twins(arguments.data)
        print(twins_table(result))
    else:
        result = evaluation.choice(arguments.data)
        print(choice_table(result))

    run = run_of(arguments.run)
    update_metrics(run, **{arguments.task: result})
    if arguments.json:
        _write_json(arguments.json, {arguments.task: result})
    print(f'report: {write_report(run)}')


def _write_json(path, value):
    try:
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(value, file, indent=1, ensure_ascii=False)
    except OSError as error:
        raise InputError(f'{path}: cannot be written ({error.strerror}); give another --json') from None


if __name__ == '__main__':
    cli.run(main)
