"""A packed data set: MindRecord shards of clean JPEGs with their captions, written whole or not at all, and read back.

``DATA/meta.json`` describes it, ``DATA/rejects.jsonl`` names every row, box and chunk that was left out and why. The
records are ``image`` (JPEG bytes), ``captions`` (a JSON list), ``row`` (0 to n-1, in source order), ``group`` (the same
for equal images), ``negatives`` (a JSON list of [caption that is false of the image, the true one it is worded like]),
``twin`` (the same for rows of one file that name the same twin, else the row), ``boxes`` (a JSON list of [x0, y0, x1,
y1] as shares of the picture's sides), ``chunks`` (a JSON object from texts to lists of [start, end] in characters) and
``source`` (``file:line``). Packs from before boxes and chunks lack these two. The same input gives the same bytes,
however many workers read it.
"""
import collections
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from hcma.data.images import ImageRejected, clean_jpeg, decode_rgb
from hcma.data.meta import FORMAT, META, read_meta, shard_paths
from hcma.data.records import Records, as_json
from hcma.data.shards import MAX_FIELD_BYTES, ShardWriters, read_columns, read_rows, shard_names
from hcma.data.sources.pairs import Reject
from hcma.data.sources.parts import shares
from hcma.data.whole import appearing_folder
from hcma.errors import InputError

REJECTS = 'rejects.jsonl'
PAIRS_PER_SHARD = 20_000
_AHEAD = 8  # images that each worker may be ahead of the writer


def pack(pairs, out_dir, rejects=(), source='', shards=None, max_side=None, workers=None, overwrite=False):
    """Write ``pairs`` (a list of ``Pair``) as a packed data set at ``out_dir`` and return its meta dict.

    ``rejects`` are the rows that the source left out already. ``shards`` defaults to one for 20,000 pairs,
    ``workers`` (threads: Pillow works outside Python's lock) to the number of cores. Raises ``InputError``.
    """
    rejects = list(rejects)
    names = shard_names(shards or max(1, -(-len(pairs) // PAIRS_PER_SHARD)))
    records = Records()
    with appearing_folder(out_dir, overwrite, META) as folder:
        writers = ShardWriters(folder, names)
        for pair, image in _clean_images(pairs, max_side, workers or os.cpu_count() or 1):
            if isinstance(image, ImageRejected):
                rejects.extend(Reject(pair.file, line, pair.name, str(image)) for line in pair.lines)
            else:
                rejects.extend(Reject(pair.file, pair.lines[0], pair.name, reason) for reason in image.outside)
                writers.write(records.add(pair, image))
        _require_some(records.images, rejects, source)
        writers.close()
        meta = {'format': FORMAT, 'images': records.images, 'captions': records.captions,
                'negatives': records.negatives, 'negatives_dropped': records.dropped, 'twins': records.twin_rows(),
                'boxes': records.boxes, 'chunks': records.chunks, 'rejected': count_kinds(rejects), 'source': source,
                'shards': names, 'fingerprint': records.digest.hexdigest()}
        _write_lines(os.path.join(folder, REJECTS), (as_json(vars(reject)) for reject in rejects))
        _write_lines(os.path.join(folder, META), [json.dumps(meta, indent=1, ensure_ascii=False)])
    return meta


def count_kinds(rejects):
    """Return {reason without its detail: number of rows}, the most frequent first."""
    return dict(collections.Counter(reject.kind for reject in rejects).most_common())


def _clean_images(pairs, max_side, workers):
    """Yield ``(pair, _Image or ImageRejected)`` in the order of ``pairs``, a bounded number of images ahead."""
    with ThreadPoolExecutor(workers) as pool, tqdm(total=len(pairs), desc='pack', unit='image') as progress:
        waiting = collections.deque()
        todo = iter(pairs)
        try:
            while True:
                for pair in todo:
                    waiting.append((pair, pool.submit(_clean_image, pair, max_side)))
                    if len(waiting) >= workers * _AHEAD:
                        break
                if not waiting:
                    return
                pair, job = waiting.popleft()
                yield pair, job.result()
                progress.update()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Image(NamedTuple):
    """A packed picture, its boxes as shares of its sides, and the reasons against boxes outside of it."""
    jpeg: bytes
    boxes: list
    outside: list


def _clean_image(pair, max_side):
    try:
        data = pair.image.read()
        image = clean_jpeg(data, max_side)
        # The packed picture may be smaller than the one whose pixels the boxes count.
        inside, outside = shares(pair.boxes, decode_rgb(data).size) if pair.boxes else ([], [])
    except ImageRejected as error:
        return error
    if len(image) > MAX_FIELD_BYTES:
        return ImageRejected(f'too large: {len(image) >> 20} MiB as JPEG')
    return _Image(image, inside, outside)


def _require_some(images, rejects, source):
    if images:
        return
    reasons = '; '.join(f'{count} x {kind}' for kind, count in list(count_kinds(rejects).items())[:3])
    first = f' (the first: {rejects[0].file}:{rejects[0].line} {rejects[0].image})' if rejects else ''
    hint = '; pass --image-root if the images lie elsewhere' if 'missing file' in reasons else ''
    raise InputError(f'{source}: no usable pair of image and caption: {reasons or "no rows"}{first}{hint}')


def _write_lines(path, lines):
    with open(path, 'w', encoding='utf-8', errors='backslashreplace', newline='\n') as file:
        file.writelines(line + '\n' for line in lines)


def read_captions(data_dir):
    """Return the captions of every image, ``list[list[str]]`` in row order."""
    paths, count = shard_paths(data_dir), read_meta(data_dir)['images']
    captions = [None] * count
    records = read_columns(paths, ['captions', 'row'])
    for record in tqdm(records, total=count, desc='captions', unit='image', delay=2, leave=False):
        captions[record['row']] = json.loads(record['captions'])
    return captions


def read_twins(data_dir):
    """Return the twin ids of all rows, (rows,) int64."""
    twins = np.empty(read_meta(data_dir)['images'], np.int64)
    for record in read_columns(shard_paths(data_dir), ['row', 'twin']):
        twins[record['row']] = record['twin']
    return twins


def read_records(data_dir, rows):
    """Yield the records of ``rows`` in the order given, as dicts, with what they hold as JSON read."""
    rows, count = [int(row) for row in rows], read_meta(data_dir)['images']
    if any(not 0 <= row < count for row in rows):
        raise IndexError(f'{data_dir} has rows 0 to {count - 1}')
    if not rows:
        return
    for row, record in zip(rows, read_rows(shard_paths(data_dir), rows, count)):
        assert record['row'] == row, f'{data_dir}: asked for row {row}, got {record["row"]}'
        yield {**record, **{key: json.loads(record[key]) for key in ('captions', 'negatives', 'boxes', 'chunks')}}
