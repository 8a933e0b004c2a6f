"""Evaluate a trained run: ``tools/evaluate.py RUN --data DATA --task TASK [--json FILE]``.

| TASK      | DATA                                                                      |
|-----------|---------------------------------------------------------------------------|
| retrieval | a folder made by tools/prepare.py                                         |
| choice    | a JSONL with image, caption, negative_caption, type                       |
| twins     | a JSONL with images, captions: two of each, the first true of the first   |
| judgement | a JSONL with image, caption, scores (people's ratings: a number, or more) |
| vqa       | a JSONL with image, question, answer or answers, type                     |

Prints a table, adds the numbers to RUN/metrics.json and draws RUN/report.html anew.
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
    parser.add_argument('--task', choices=('retrieval', 'choice', 'twins', 'judgement', 'vqa'), required=True)
    parser.add_argument('--limit', metavar='N', type=cli.positive, help='retrieval: take only the first N images')
    parser.add_argument('--fit-weights', metavar='VAL', help='choose the weights of the levels on this validation '
                        'data (a packed folder or a JSONL of choices) instead of the recipe')
    parser.add_argument('--split', metavar='NAME', help='vqa: take only the rows whose "split" is this')
    parser.add_argument('--json', metavar='FILE', help='write the numbers there too')
    arguments = parser.parse_args()

    from hcma.report import write_report
    from hcma.training.run_folder import run_of, update_metrics
    result, table = _vqa(arguments) if arguments.task == 'vqa' else _alignment(arguments)
    print(table)
    run = run_of(arguments.run)
    update_metrics(run, **{arguments.task: result})
    if arguments.json:
        _write_json(arguments.json, {arguments.task: result})
    print(f'report: {write_report(run)}')


def _vqa(arguments):
    from hcma.evaluation.table import vqa_table
    from hcma.evaluation.vqa import vqa
    result = vqa(arguments.run, arguments.data, arguments.split)
    return result, vqa_table(result)


def _alignment(arguments):
    from hcma.evaluation import table
    from hcma.evaluation.tasks import Evaluation
    evaluation = Evaluation(arguments.run)
    if arguments.fit_weights:
        evaluation.fit_weights(arguments.fit_weights)
    if arguments.task == 'retrieval':
        result = evaluation.retrieval(arguments.data, arguments.limit)
        return result, table.retrieval_table(result)
    result = getattr(evaluation, arguments.task)(arguments.data)
    return result, getattr(table, f'{arguments.task}_table')(result)


def _write_json(path, value):
    try:
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(value, file, indent=1, ensure_ascii=False)
    except OSError as error:
        raise InputError(f'{path}: cannot be written ({error.strerror}); give another --json') from None


if __name__ == '__main__':
    cli.run(main)
