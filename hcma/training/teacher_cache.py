"""A teacher's features on disk: computed once for several augmentations, so that later epochs and other students
never run the teacher.

``DIR/cache.json`` says what made it; ``DIR/augmentation_0000/rows_00000000/`` holds one ``.npy`` in float16 for each
feature of some rows, and ``drawn.json``, by which seed they were drawn and how long they took. A folder of rows appears
whole or not at all, so filling goes on where it was stopped.
"""
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
from mindspore import Tensor
from tqdm import tqdm

from hcma.data.whole import appearing_folder
from hcma.errors import InputError
from hcma.models.batched import in_batches

FORMAT = 1
ABOUT, DRAWN = 'cache.json', 'drawn.json'
ROWS = 2048  # in a folder


class TeacherCache:
    """The features called ``names`` of every row of a packed data set, in the folder ``distill.cache`` of ``recipe``.

    ``teacher`` and ``data`` are fingerprints. Raises ``InputError`` where the folder holds the features of another
    teacher, of other data, or of other crops.
    """

    def __init__(self, recipe, teacher, data, rows, names):
        self.folder, self.rows, self.names = Path(recipe.distill.cache), rows, names
        self.seed, self.size = recipe.sample_seed, recipe.train.batch_size
        self.about = {'format': FORMAT, 'teacher': teacher, 'data': data, 'seed': self.seed,
                      'crop_area': list(recipe.data.crop_area), 'crop_aspect': list(recipe.data.crop_aspect),
                      'flip': recipe.data.flip}
        self.arrays, self.filled_seconds, self.read_seconds, self.read_rows = {}, 0.0, 0.0, 0
        self.seconds_per_row = []
        self._open(recipe)

    def _open(self, recipe):
        path = self.folder / ABOUT
        if not path.exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise InputError(f'{self.folder}: is not empty and holds no {ABOUT}; give another --cache')
            _write(path, self.about)
        try:
            found = json.loads(path.read_text(encoding='utf-8'))
        except (OSError, ValueError) as error:
            raise InputError(f'{path}: cannot be read ({error}); give another --cache') from None
        sides = {'teacher': recipe.distill.teacher, 'data': recipe.data.train}
        for key, value in self.about.items():
            if found.get(key) != value:
                now = sides.get(key, f'{key} {value}')
                raise InputError(f'{self.folder}: was made with another {key}, not with {now}; give another --cache')

    def fill(self, teacher, batches, augmentations):
        """Compute what is missing of these augmentations; ``batches`` have the teacher's columns last but ``align``."""
        started = time.perf_counter()
        own = len(batches.recipe.columns)
        missing = [(augmentation, first) for augmentation in sorted(augmentations)
                   for first in range(0, self.rows, ROWS) if not (self._place(augmentation, first) / DRAWN).exists()]
        for augmentation, first in tqdm(missing, desc='teacher', unit=f'x{ROWS} rows', delay=2, leave=False):
            rows = np.arange(first, min(first + ROWS, self.rows))
            samples = (sample[own:-1] for sample in batches.samples(augmentation, rows))
            self._compute(self._place(augmentation, first), teacher, samples, augmentation, rows)
        self.filled_seconds = time.perf_counter() - started

    def _compute(self, place, teacher, samples, augmentation, rows):
        timed = _Timed(teacher)
        features = in_batches(timed, samples, self.size, len(rows), 'samples')
        drawn = {'seed': self.seed, 'augmentation': augmentation, 'rows': [int(rows[0]), int(rows[-1]) + 1],
                 'seconds_per_row': timed.seconds_per_call() / self.size}
        with appearing_folder(place, True, DRAWN) as folder:
            for name, feature in zip(self.names, features):
                np.save(os.path.join(folder, f'{name}.npy'), feature.astype(np.float16))
            _write(Path(folder) / DRAWN, drawn)

    def read(self, augmentation_B, row_B):
        """The features (B, ...) of samples by augmentation and row, as float32 Tensors."""
        started = time.perf_counter()
        columns = None
        first_B = row_B // ROWS * ROWS
        for augmentation, first in np.unique(np.stack((augmentation_B, first_B), 1), axis=0):
            at = np.flatnonzero((augmentation_B == augmentation) & (first_B == first))
            arrays = self._arrays(int(augmentation), int(first))
            if columns is None:
                columns = [np.empty((len(row_B),) + array.shape[1:], np.float32) for array in arrays]
            for column, array in zip(columns, arrays):
                column[at] = array[row_B[at] - first]
        self.read_rows += len(row_B)
        self.read_seconds += time.perf_counter() - started
        return [Tensor(column) for column in columns]

    def _arrays(self, augmentation, first):
        """The features of one folder, mapped into memory."""
        key = augmentation, first
        if key not in self.arrays:
            place = self._place(*key)
            self.arrays[key] = [np.load(place / f'{name}.npy', mmap_mode='r') for name in self.names]
            self.seconds_per_row.append(json.loads((place / DRAWN).read_text(encoding='utf-8'))['seconds_per_row'])
        return self.arrays[key]

    def _place(self, augmentation, first):
        return self.folder / f'augmentation_{augmentation:04d}' / f'rows_{first:08d}'

    def summary(self):
        """How long filling and reading took, and what the teacher would have taken for all that was read."""
        teacher = self.read_rows * statistics.mean(self.seconds_per_row or [0.0])
        seconds = {'teacher': teacher, 'read': self.read_seconds, 'filled': self.filled_seconds,
                   'saved': teacher - self.read_seconds - self.filled_seconds}
        return {'samples': self.read_rows, **{f'{name}_seconds': round(value, 2) for name, value in seconds.items()}}


class _Timed:
    """Calls a cell, waits for its outputs, and keeps the seconds of each call."""

    def __init__(self, cell):
        self.cell, self.seconds = cell, []

    def __call__(self, *inputs):
        started = time.perf_counter()
        outputs = self.cell(*inputs)
        outputs[0].asnumpy()
        self.seconds.append(time.perf_counter() - started)
        return outputs

    def seconds_per_call(self):
        """The median: the first call may compile."""
        return statistics.median(self.seconds)


def _write(path, value):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1), encoding='utf-8')
    except OSError as error:
        raise InputError(f'{path}: cannot be written ({error.strerror}); give another --cache') from None
