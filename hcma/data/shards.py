"""MindRecord shards: records are dealt out in turn, so row ``r`` of ``n`` shards is record ``r // n`` of ``r % n``."""
import errno
import os
import shutil

import mindspore.dataset as ds
import numpy as np
from mindspore.mindrecord import FileReader, FileWriter

SCHEMA = {
    'image': {'type': 'bytes'},
    'captions': {'type': 'string'},
    'row': {'type': 'int64'},
    'group': {'type': 'int64'},
    'negatives': {'type': 'string'},
    'twin': {'type': 'int64'},
    'boxes': {'type': 'string'},
    'chunks': {'type': 'string'},
    'source': {'type': 'string'},
}
_ABSENT = {'boxes': '[]', 'chunks': '{}'}  # what older packs lack
_PAGE = 32 << 20  # MindRecord refuses a record that does not fit into a page
MAX_FIELD_BYTES = _PAGE - (1 << 10)
_HEADER = 1 << 20  # names some 7,000 pages; the default of 16 MiB would make every small pack large
_RECORDS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 << 20
_LEAST_FREE_DISK = 64 << 20  # below this MindRecord's failures are the disk's


def shard_names(count):
    """Return the file names of ``count`` shards."""
    return [f'pairs-{number:05d}-of-{count:05d}.mindrecord' for number in range(count)]


class ShardWriters:
    """Writes records (dicts as in ``SCHEMA``) to shards ``names`` in ``folder``, each in its turn.

    Raises ``OSError`` where MindRecord finds no room on the disk.
    """

    def __init__(self, folder, names):
        self.folder = folder
        self.paths = [os.path.join(folder, name) for name in names]
        self.writers = [_open(path) for path in self.paths]
        self.waiting = [[] for _ in names]
        self.waiting_bytes = 0
        self.rows = 0

    def write(self, record):
        """Add one record; it reaches the disk some records later."""
        self.waiting[self.rows % len(self.writers)].append(record)
        self.waiting_bytes += len(record['image'])
        self.rows += 1
        if self.rows % (_RECORDS_AT_ONCE * len(self.writers)) == 0 or self.waiting_bytes > _BYTES_AT_ONCE:
            self._flush()

    def close(self):
        """Write what waits, and the index of every shard."""
        self._flush()
        for path, writer in zip(self.paths, self.writers):
            self._call(writer.commit)
            for name in (path, path + '.db'):
                os.chmod(name, 0o666 & ~_umask())  # MindRecord lets nobody but the owner read

    def _flush(self):
        for writer, records in zip(self.writers, self.waiting):
            if records:
                self._call(writer.write_raw_data, records)
                records.clear()
        self.waiting_bytes = 0

    def _call(self, function, *arguments):
        try:
            function(*arguments)
        except RuntimeError as error:
            if shutil.disk_usage(self.folder).free < _LEAST_FREE_DISK:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise


def read_columns(paths, columns):
    """Yield a dict of ``columns`` for every record, shard after shard."""
    reader = FileReader(paths, num_consumer=1, columns=columns)
    try:
        yield from reader.get_next()
    finally:
        reader.close()


def read_rows(paths, rows, count):
    """Yield whole records for ``rows`` in the order given; ``count`` is the number of rows in all shards."""
    places = row_places(rows, len(paths), count)
    data = ds.MindDataset(paths, sampler=ds.SubsetSampler(places), num_parallel_workers=1)
    for record in data.create_dict_iterator(num_epochs=1, output_numpy=True):
        yield {'image': record['image'].tobytes(), 'captions': str(record['captions']), 'row': int(record['row']),
               'group': int(record['group']), 'negatives': str(record['negatives']), 'twin': int(record['twin']),
               'source': str(record['source']), **{name: str(record.get(name, _ABSENT[name])) for name in _ABSENT}}


def row_places(rows, shards, count):
    """Where MindDataset, which reads shard after shard, finds ``rows`` of a pack of ``count`` rows: a list."""
    rows, sizes = np.asarray(rows, np.int64), [len(range(shard, count, shards)) for shard in range(shards)]
    starts = np.cumsum([0, *sizes[:-1]])
    return (starts[rows % shards] + rows // shards).tolist()


def _open(path):
    writer = FileWriter(path, shard_num=1)
    writer.set_header_size(_HEADER)
    writer.set_page_size(_PAGE)
    writer.add_schema(SCHEMA, 'pairs')
    writer.add_index(['row'])  # by default every field but the image would be indexed, captions included
    return writer


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
