"""A packed data set: MindRecord shards of clean JPEGs with their captions, written whole or not at all, and read back.

``DATA/meta.json`` describes it, ``DATA/rejects.jsonl`` names every row that was left out and why. The records are
``image`` (JPEG bytes), ``captions`` (a JSON list), ``row`` (0 to n-1, in source order), ``group`` (the same for equal
images), ``negatives`` (a JSON list of [caption that is false of the image, the true one it is worded like]), ``twin``
(the same for rows of one file that name the same twin, else the row) and ``source`` (``file:line``). The same input
gives the same bytes, however many workers read it.
"""
import collections
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from tqdm import tqdm

from hcma.data.images import ImageRejected, clean_jpeg
from hcma.data.meta import FORMAT, META, read_meta, shard_paths
from hcma.data.shards import MAX_FIELD_BYTES, ShardWriters, read_columns, read_rows, shard_names
from hcma.data.sources.pairs import Reject
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
    records = _Records()
    with appearing_folder(out_dir, overwrite, META) as folder:
        writers = ShardWriters(folder, names)
        for pair, image in _clean_images(pairs, max_side, workers or os.cpu_count() or 1):
            if isinstance(image, ImageRejected):
                rejects.extend(Reject(pair.file, line, pair.name, str(image)) for line in pair.lines)
            else:
                writers.write(records.add(pair, image))
        _require_some(records.images, rejects, source)
        writers.close()
        meta = {'format': FORMAT, 'images': records.images, 'captions': records.captions,
                'negatives': records.negatives, 'negatives_dropped': records.dropped, 'twins': records.twin_rows(),
                'rejected': count_kinds(rejects), 'source': source, 'shards': names,
                'fingerprint': records.digest.hexdigest()}
        _write_lines(os.path.join(folder, REJECTS), (_json(vars(reject)) for reject in rejects))
        _write_lines(os.path.join(folder, META), [json.dumps(meta, indent=1, ensure_ascii=False)])
    return meta


def count_kinds(rejects):
    """Return {reason without its detail: number of rows}, the most frequent first."""
    return dict(collections.Counter(reject.kind for reject in rejects).most_common())


class _Records:
    """Makes the records in row order, and counts and fingerprints them on the way."""

    def __init__(self):
        self.images = self.captions = self.negatives = self.dropped = 0
        self.twins = collections.Counter()
        self.digest = hashlib.sha256()

    def add(self, pair, image):
        """Return the record of ``pair`` with the JPEG bytes ``image``."""
        image_digest = hashlib.sha256(image).digest()
        negatives = _false_of(pair)
        twin = self.images if pair.twin is None else _twin_id(pair)
        record = {'captions': _json(pair.captions), 'row': self.images, 'group': _id_63(image_digest),
                  'negatives': _json(negatives), 'twin': twin, 'source': f'{pair.file}:{pair.lines[0]}'}
        self.digest.update(image_digest + _json(record).encode('utf-8'))
        self.images += 1
        self.captions += len(pair.captions)
        self.negatives += len(negatives)
        self.dropped += len(pair.negatives) - len(negatives)
        self.twins[twin] += 1
        return {'image': image, **record}

    def twin_rows(self):
        """How many rows have a twin."""
        return sum(count for count in self.twins.values() if count > 1)


def _false_of(pair):
    """The negatives of ``pair`` that are none of its captions, whatever their case."""
    captions = {caption.lower() for caption in pair.captions}
    return [negative for negative in pair.negatives if negative.text.lower() not in captions]


def _twin_id(pair):
    return _id_63(hashlib.sha256(f'{pair.file}\0{pair.twin}'.encode('utf-8', 'backslashreplace')).digest())


def _id_63(digest):
    return int.from_bytes(digest[:8], 'big') >> 1  # 63 bits: never negative as int64


def _clean_images(pairs, max_side, workers):
    """Yield ``(pair, JPEG bytes or ImageRejected)`` in the order of ``pairs``, a bounded number of images ahead."""
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


def _clean_image(pair, max_side):
    try:
        image = clean_jpeg(pair.image.read(), max_side)
    except ImageRejected as error:
        return error
    if len(image) > MAX_FIELD_BYTES:
        return ImageRejected(f'too large: {len(image) >> 20} MiB as JPEG')
    return image


def _require_some(images, rejects, source):
    if images:
        return
    reasons = '; '.join(f'{count} x {kind}' for kind, count in list(count_kinds(rejects).items())[:3])
    first = f' (the first: {rejects[0].file}:{rejects[0].line} {rejects[0].image})' if rejects else ''
    hint = '; pass --image-root if the images lie elsewhere' if 'missing file' in reasons else ''
    raise InputError(f'{source}: no usable pair of image and caption: {reasons or "no rows"}{first}{hint}')


def _json(value):
    return json.dumps(value, ensure_ascii=False)


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
    """Yield the records of ``rows`` in the order given, as dicts: ``captions`` are str, ``negatives`` pairs."""
    rows, count = [int(row) for row in rows], read_meta(data_dir)['images']
    if any(not 0 <= row < count for row in rows):
        raise IndexError(f'{data_dir} has rows 0 to {count - 1}')
    if not rows:
        return
    for row, record in zip(rows, read_rows(shard_paths(data_dir), rows, count)):
        assert record['row'] == row, f'{data_dir}: asked for row {row}, got {record["row"]}'
        yield {**record, **{key: json.loads(record[key]) for key in ('captions', 'negatives')}}
