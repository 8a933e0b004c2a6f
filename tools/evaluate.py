"""Evaluate a trained run: ``tools/evaluate.py RUN --data DATA --task TASK [--json FILE]``.

| TASK      | DATA                                                                       |
|-----------|----------------------------------------------------------------------------|
| retrieval | a folder made by tools/prepare.py                                          |
| choice    | a JSONL with image, caption, negative_caption, type                        |
| twins     | a JSONL with images, captions: two of each, the first true of the first    |
| judgement | a JSONL with image, caption, scores (people's ratings: a number, or more)  |
| vqa       | a JSONL with image, question, answer or answers, type                      |
| zero-shot | a folder with a folder for each class, or a JSONL or CSV with image, label |
| embed     | a folder made by tools/prepare.py, or whatever that reads                  |

Prints a table, adds the numbers to RUN/metrics.json and draws RUN/report.html anew. embed writes features to --out.
"""
import argparse
import json

from hcma import cli
from hcma.errors import InputError

TASKS = ('retrieval', 'choice', 'twins', 'judgement', 'vqa', 'zero-shot', 'embed')
# Options that only one task reads; those it cannot do without come first.
NEEDED = {'zero-shot': ('classes', 'templates'), 'embed': ('out',)}
OPTIONAL = {'retrieval': ('limit',), 'vqa': ('split',), 'embed': ('half', 'overwrite')}


def main():
    """Run one task and show, store and draw its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run', metavar='RUN', help='the folder of a run, or one of its checkpoints')
    parser.add_argument('--data', metavar='DATA', required=True)
    parser.add_argument('--task', choices=TASKS, required=True)
    parser.add_argument('--limit', metavar='N', type=cli.positive, help='retrieval: take only the first N images')
    parser.add_argument('--fit-weights', metavar='VAL', help='choose the weights of the levels on this validation '
                        'data (a packed folder or a JSONL of choices) instead of the recipe')
    parser.add_argument('--split', metavar='NAME', help='vqa: take only the rows whose "split" is this')
    parser.add_argument('--classes', metavar='FILE', help='zero-shot: the names of the classes, one a line; or a '
                        'label, as the data has it, a tab and the name')
    parser.add_argument('--templates', metavar='FILE', help='zero-shot: prompts, one a line, with {} for the name')
    parser.add_argument('--out', metavar='DIR', help='embed: the folder for features and their index')
    parser.add_argument('--half', action='store_true', help='embed: float16 instead of float32')
    parser.add_argument('--overwrite', action='store_true', help='embed: replace a DIR that an earlier one wrote')
    parser.add_argument('--json', metavar='FILE', help='write the numbers there too')
    arguments = parser.parse_args()
    _check(arguments)
    if arguments.task == 'embed':
        _embed(arguments)
        return

    from hcma.report import write_report
    from hcma.training.run_folder import run_of, update_metrics
    result, table = _vqa(arguments) if arguments.task == 'vqa' else _alignment(arguments)
    print(table)
    run, name = run_of(arguments.run), arguments.task.replace('-', '_')
    update_metrics(run, **{name: result})
    if arguments.json:
        _write_json(arguments.json, {name: result})
    print(f'report: {write_report(run)}')


def _check(arguments):
    """Options of other tasks would be left unread: say so."""
    for task, names in (*NEEDED.items(), *OPTIONAL.items()):
        given = [name for name in names if getattr(arguments, name)]
        if given and task != arguments.task:
            raise InputError(f'--{given[0]}: is for --task {task}; leave it out')
    for name in NEEDED.get(arguments.task, ()):
        if not getattr(arguments, name):
            raise InputError(f'--{name}: --task {arguments.task} needs it')


def _embed(arguments):
    from hcma.evaluation.embed import embed
    from hcma.evaluation.tasks import Evaluation
    about = embed(Evaluation(arguments.run), arguments.data, arguments.out, arguments.half, arguments.overwrite)
    print(f'{about["images"]} pictures, {about["texts"]} texts, {about["rejected"]} rejected\nwrote {arguments.out}')


def _vqa(arguments):
    from hcma.evaluation.table import vqa_table
    from hcma.evaluation.vqa import vqa
    result = vqa(arguments.run, arguments.data, arguments.split)
    return result, vqa_table(result)


def _alignment(arguments):
    from hcma.data.labels import Classes, read_templates
    from hcma.evaluation import table
    from hcma.evaluation.tasks import Evaluation
    if arguments.task == 'zero-shot':  # a slip in these files is found before the model is loaded
        words = Classes(arguments.classes), read_templates(arguments.templates)
    evaluation = Evaluation(arguments.run)
    if arguments.fit_weights:
        evaluation.fit_weights(arguments.fit_weights)
    if arguments.task == 'retrieval':
        result = evaluation.retrieval(arguments.data, arguments.limit)
        return result, table.retrieval_table(result)
    if arguments.task == 'zero-shot':
        result = evaluation.zero_shot(arguments.data, *words)
        return result, table.zero_shot_table(result)
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
