"""Writes generated scenes as pictures and the jsonl files that the rest of the project reads."""
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

from tqdm import tqdm

from hcma.data.scenes.sample import Options, make_samples
from hcma.data.scenes.world import MOST_TEXTURED
from hcma.errors import InputError

CHUNK = 200  # scenes that a worker makes at a time; even, so that twins stay together
FILES = {'rows': '{}.jsonl', 'choices': 'choices_{}.jsonl', 'questions': 'questions_{}.jsonl',
         'twins': 'twins_{}.jsonl'}


def write_scenes(out_dir, train=12000, val=1000, test=2000, workers=None, **options):
    """Write that many scenes of each split into out_dir.

    {train,val,test}.jsonl have the pictures with their captions, choices_{val,test}.jsonl captions with hard
    negatives by type, questions_{train,val,test}.jsonl questions with answers. The options are those of ``Options``:
    ``captions`` of a scene, ``seed``; ``textured``, the share of scenes with stripes or dots; ``counts``, the share of
    captions that count; ``relations``, the share of scenes all of whose captions state a relation; with ``twins``
    these (or all, if the share is 0) come as pairs of neighbouring rows with the relation mirrored, which share their
    ``twin``, and twins_{val,test}.jsonl have two pictures and two captions, each true of its own picture only; with
    ``negatives`` the rows of train.jsonl have false captions, made of the true ones. The files depend on the options
    alone, not on ``workers`` (default: the CPU's cores, at most 4). A jsonl file appears when all of its pictures are
    there.

    Raises InputError for an impossible option, or a folder that cannot be written.
    """
    counts = {'train': train, 'val': val, 'test': test}
    options = Options(**options)
    _check(counts, options, workers)
    with _writable(out_dir):
        for split in counts:
            os.makedirs(os.path.join(out_dir, 'images', split), exist_ok=True)
            for path in _paths(out_dir, split, twins=True).values():
                Path(path).unlink(missing_ok=True)
        tasks = [(split, start, min(start + CHUNK, count))
                 for split, count in counts.items() for start in range(0, count, CHUNK)]
        lines = {split: {name: [] for name in FILES} for split in counts}
        with tqdm(total=sum(counts.values()), desc='scenes', unit='scene') as progress:
            for (split, start, stop), chunk in _work(out_dir, tasks, options, workers):
                for name in FILES:
                    lines[split][name] += chunk[name]
                progress.update(stop - start)
        for split in counts:
            _write_split(_paths(out_dir, split, options.twins), lines[split])


def write_chunk(out_dir, task, options):
    """Write the pictures of scenes start to stop of a split; return their lines by file."""
    split, start, stop = task
    lines = {name: [] for name in FILES}
    first = {}  # of each pair of twins: its name and caption
    for index, sample in _samples(split, start, stop, options):
        name = f'images/{split}/{index:06d}.jpg'
        sample.image.save(os.path.join(out_dir, name), 'JPEG', quality=95, subsampling=0)
        row = {'image': name, 'captions': sample.captions}
        if sample.twin is not None:
            row['twin'] = sample.twin
            if sample.twin in first:
                images, texts = zip(first[sample.twin], (name, sample.contrast))
                lines['twins'].append({'images': images, 'captions': texts})
            first[sample.twin] = name, sample.contrast
        if sample.negatives is not None:
            row['negatives'] = sample.negatives
        lines['rows'].append(row)
        lines['choices'] += [{'image': name, 'caption': caption, 'negative_caption': negative, 'type': kind}
                             for kind, caption, negative in sample.choices]
        lines['questions'] += [{'image': name, 'question': question, 'answer': answer, 'type': kind}
                               for kind, question, answer in sample.questions]
    return {name: [json.dumps(row) + '\n' for row in rows] for name, rows in lines.items()}


def _samples(split, start, stop, options):
    """(index, sample) from start to stop; a twin whose partner would come after the last scene is left single."""
    size = 2 if options.twins else 1
    for first in range(start, stop, size):
        samples = make_samples(split, first // size, options)
        if first + size > stop:
            samples = [sample.alone() for sample in samples[:stop - first]]
        yield from enumerate(samples, first)


def _work(out_dir, tasks, options, workers):
    """Yield (task, lines) in the tasks' order."""
    workers = min(workers or min(os.cpu_count() or 1, 4), len(tasks))
    if workers <= 1:
        for task in tasks:
            yield task, write_chunk(out_dir, task, options)
        return
    # Spawned: a fork of a process that has started MindSpore's threads can hang. An executor, not a Pool: it
    # raises when a worker dies, where a Pool waits for ever.
    with ProcessPoolExecutor(workers, multiprocessing.get_context('spawn')) as executor:
        yield from zip(tasks, executor.map(write_chunk, repeat(out_dir), tasks, repeat(options)))


def _paths(out_dir, split, twins):
    left_out = {'choices', 'twins'} if split == 'train' else set() if twins else {'twins'}
    return {name: os.path.join(out_dir, pattern.format(split)) for name, pattern in FILES.items()
            if name not in left_out}


def _write_split(paths, lines):
    for name, path in paths.items():
        with open(path + '.part', 'w', encoding='utf-8', newline='\n') as file:
            file.writelines(lines[name])
        os.replace(path + '.part', path)


def _check(counts, options, workers):
    for split, count in counts.items():
        if count < 0:
            raise InputError(f'{split} is {count}: the number of scenes must be 0 or more')
    if options.captions < 1:
        raise InputError(f'captions is {options.captions}: a scene needs at least 1')
    for name, most in (('relations', 1), ('textured', MOST_TEXTURED), ('counts', 1)):
        if not 0 <= getattr(options, name) <= most:
            raise InputError(f'{name} is {getattr(options, name)}: it is a share, from 0 to {most}')
    if workers is not None and workers < 1:
        raise InputError(f'workers is {workers}: at least 1 is needed')


@contextmanager
def _writable(out_dir):
    try:
        yield
    except OSError as error:
        raise InputError(f'cannot write scenes to {out_dir}: {error.strerror or error}; '
                         'give another folder or make room') from error
