"""Features of pictures and texts as files for other tools, such as an index of nearest neighbours."""
import json
import os
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hcma import __version__
from hcma.data.images import ImageRejected, decode_rgb
from hcma.data.meta import META, read_meta
from hcma.data.pack import read_records
from hcma.data.sources import Blob, read_pairs
from hcma.data.sources.pairs import NO_CAPTION
from hcma.data.whole import appearing_folder, require_free
from hcma.errors import InputError

DESCRIPTION = 'embed.json'


class RowFile:
    """An .npy of rows that are written as they come, so that only those at hand are in memory."""

    def __init__(self, path, width, dtype):
        self.file, self.width, self.dtype, self.rows = open(path, 'wb'), width, np.dtype(dtype), 0
        self._write_header()

    def append(self, rows):
        """Write ``rows`` (N, width) after those that are there."""
        self.file.write(np.ascontiguousarray(rows, self.dtype).tobytes())
        self.rows += len(rows)

    def close(self):
        """Write how many rows there are: NumPy leaves room for the number in the header."""
        self.file.seek(0)
        self._write_header()
        self.file.close()

    def _write_header(self):
        np.lib.format.write_array_header_1_0(self.file, {
            'descr': np.lib.format.dtype_to_descr(self.dtype), 'fortran_order': False,
            'shape': (self.rows, self.width)})


def embed(evaluation, data, folder, half=False, overwrite=False):
    """Write ``folder``: images.npy and texts.npy, the normalised features of whole pictures and texts in float32, or
    with ``half`` in float16; images.jsonl and texts.jsonl, whose line N says what row N is; rejects.jsonl, what could
    not be read; embed.json.

    ``data`` is a packed folder, or whatever tools/prepare.py reads; of the latter pictures without a caption count too.
    Returns the content of embed.json. Raises ``InputError`` if there is no picture that can be read.
    """
    require_free(folder, overwrite, DESCRIPTION)
    samples, total, rejects = _packed(data) if os.path.isfile(os.path.join(data, META)) else _source(data)
    encoder, width = evaluation.encoder, evaluation.recipe.model.embed_width
    dtype, texts = 'float16' if half else 'float32', []
    with appearing_folder(folder, overwrite, DESCRIPTION) as partial:
        partial = Path(partial)
        image_file = RowFile(partial / 'images.npy', width, dtype)
        with open(partial / 'images.jsonl', 'w', encoding='utf-8') as index:
            pictures = _pictures(samples, evaluation.decoder, index, texts, rejects)
            for block in encoder.image_blocks(pictures, total):
                image_file.append(block[0])
        image_file.close()
        if not image_file.rows:
            raise InputError(f'{data}: no picture can be read (the first: {rejects[0]["reason"]})' if rejects else
                             f'{data}: has no picture')
        text_file = RowFile(partial / 'texts.npy', width, dtype)
        for block in encoder.text_blocks([text['caption'] for text in texts]):
            text_file.append(block[0])
        text_file.close()
        _write_lines(partial / 'texts.jsonl', texts)
        _write_lines(partial / 'rejects.jsonl', rejects)
        about = {'hcma': __version__, 'images': image_file.rows, 'texts': text_file.rows, 'rejected': len(rejects),
                 'width': width, 'type': dtype, 'compare': 'inner product: the rows have length 1'}
        (partial / DESCRIPTION).write_text(json.dumps(about, indent=1), encoding='utf-8')
    return about


def _packed(data):
    """(samples, how many, rejects): a sample is the name of a picture, what reads its bytes, and its captions."""
    count = read_meta(data)['images']
    records = read_records(data, range(count))
    return ((str(row), lambda record=record: record['image'], record['captions'])
            for row, record in enumerate(records)), count, []


def _source(data):
    """The same of files that were not packed."""
    pairs, rejects = read_pairs(data)
    samples = [(pair.name, pair.image.read, pair.captions) for pair in pairs]
    root, left = data if os.path.isdir(data) else os.path.dirname(data), []
    for reject in rejects:
        blob = Blob(os.path.join(root, reject.image))
        if reject.reason == NO_CAPTION and os.path.isfile(blob.path):
            samples.append((reject.image, blob.read, ()))
        else:
            left.append({'image': reject.image, 'line': reject.line, 'reason': reject.reason})
    return samples, len(samples), left


def _pictures(samples, decoder, index, texts, rejects):
    """Yield the pictures that can be read, and note for each its row in ``index``, its captions in ``texts``."""
    row = 0
    for name, read, captions in samples:
        try:
            picture = decoder.whole(np.asarray(decode_rgb(read())))
        except ImageRejected as error:
            rejects.append({'image': name, 'reason': str(error)})
            continue
        index.write(json.dumps({'row': row, 'image': name}, ensure_ascii=False) + '\n')
        for caption in captions:
            texts.append({'row': len(texts), 'image': row, 'caption': caption})
        row += 1
        yield picture


def _write_lines(path, rows):
    with open(path, 'w', encoding='utf-8') as file:
        for row in tqdm(rows, desc=path.name, unit='row', delay=2, leave=False):
            file.write(json.dumps(row, ensure_ascii=False) + '\n')
