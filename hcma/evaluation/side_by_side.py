"""A teacher and its student side by side: what they cost and what they know, from the same data in one process."""
import statistics
import time
from pathlib import Path

import numpy as np
from mindspore import Tensor

from hcma.columns import align
from hcma.evaluation.tasks import Evaluation
from hcma.plan.flops import forward_flops

CALLS = 20  # of each tower, of which the median counts
SIDES = 'teacher', 'student'
TEACHER_EXAMPLES = Path('examples', 'teacher')


def side_by_side(teacher, student, retrieval, limit=None, choice=None):
    """Both runs over the packed data set ``retrieval``, its first ``limit`` images, and the JSONL ``choice`` if given.

    Returns {'teacher': results, 'student': results}: ``size`` (parameters, operations and seconds per picture and
    text), ``retrieval`` and ``choice`` as in ``metrics.json``. Examples of both go into the student's folder, where the
    report finds those of the teacher in ``examples/teacher``.
    """
    runs = {'teacher': Evaluation(teacher, into=student / TEACHER_EXAMPLES), 'student': Evaluation(student)}
    results = {side: {'size': _size(run)} for side, run in runs.items()}
    for side, speeds in _speeds(runs).items():
        results[side]['size'].update(speeds)
    for side, run in runs.items():
        results[side]['retrieval'] = run.retrieval(retrieval, limit)
        if choice is not None:
            results[side]['choice'] = run.choice(choice)
    return results


def table(results):
    """The results as text, a column a side, and how the student compares."""
    teacher, student = (results[side] for side in SIDES)
    rows = [['', *SIDES, 'student / teacher']]
    for key, name, show in (('parameters', 'parameters', '{:,}'), ('image_flops', 'operations per image', '{:,.0f}'),
                            ('text_flops', 'operations per caption', '{:,.0f}'),
                            ('images_per_s', 'images/s', '{:,.1f}'), ('captions_per_s', 'captions/s', '{:,.1f}')):
        one, other = teacher['size'][key], student['size'][key]
        rows.append([name, show.format(one), show.format(other), f'{other / one:.3g}'])
    rows.append(['', '', '', 'student - teacher'])
    for way, name in (('image_to_text', 'image→text R@1'), ('text_to_image', 'text→image R@1')):
        rows.append(_points(name, *(side['retrieval'][way]['r1'] for side in (teacher, student))))
    if 'choice' in student:
        rows.append(_points('choice, macro (chance 50)', *(side['choice']['macro'] for side in (teacher, student))))
    return align(rows)


def _points(name, one, other):
    return [name, f'{one:.1f}', f'{other:.1f}', f'{other - one:+.1f}']


def _size(run):
    flops = forward_flops(run.recipe)
    return {'parameters': sum(parameter.size for parameter in run.encoder.model.get_parameters()),
            'image_flops': flops['image'], 'text_flops': flops['text']}


def _speeds(runs):
    """Images and captions that each side encodes in a second, in batches of the student's size; sides take turns."""
    size = runs['student'].recipe.evaluate.batch_size
    towers = {side: _towers(run, size) for side, run in runs.items()}
    seconds = {(side, name): [] for side in SIDES for name in ('images', 'captions')}
    for call in range(CALLS + 1):
        for side in SIDES:
            for name, tower, inputs in towers[side]:
                started = time.perf_counter()
                tower(*inputs)[0].asnumpy()
                seconds[side, name].append(time.perf_counter() - started)
    # The first call compiles.
    return {side: {f'{name}_per_s': round(size / statistics.median(seconds[side, name][1:]), 1)
                   for name in ('images', 'captions')} for side in SIDES}


def _towers(run, size):
    """Each tower with random inputs, which take as long as any."""
    model, encoder = run.recipe.model, run.encoder
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (size, *model.image.pixels, 3), dtype=np.uint8)
    boxes = [Tensor(np.stack([column] * size)) for column in encoder.regions.none]
    text = [Tensor(column) for column in encoder.captions(['a'] * size)]
    return [('images', encoder.model.image_tower, (Tensor(picture), *boxes)),
            ('captions', encoder.model.text_tower, text)]
