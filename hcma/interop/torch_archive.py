"""Tensors of torch's files, as ``torch.save`` and ``torch.jit.save`` write them since torch 1.6, without torch.

Such a file is a zip archive: a pickle that names tensors, and their bytes. Nothing in it is run, neither a program
nor a constructor: of all that the pickle may call only what builds a tensor is known, and all else becomes a ``Thing``.
"""
import collections
import pickle
import zipfile

import numpy as np

TYPES = {'DoubleStorage': np.float64, 'FloatStorage': np.float32, 'HalfStorage': np.float16, 'BFloat16Storage': 'bf16',
         'LongStorage': np.int64, 'IntStorage': np.int32, 'ShortStorage': np.int16, 'CharStorage': np.int8,
         'ByteStorage': np.uint8, 'BoolStorage': np.bool_}
PICKLE = '/data.pkl'


class Thing:
    """An object of a class that is not known, such as a module of a program: ``state`` is what it held, if told."""
    state = {}

    def __init__(self, *arguments):
        pass

    def __setstate__(self, state):
        self.state = state if isinstance(state, dict) else {}

    def __setitem__(self, key, value):
        """Entries of a dict or list of its own kind: not kept."""

    def append(self, value):
        """The same."""


class _Unpickler(pickle.Unpickler):
    """Reads the pickle of ``archive``, whose files are in its folder ``folder``."""

    def __init__(self, archive, folder):
        super().__init__(archive.open(folder + PICKLE))
        self.archive, self.folder, self.storages = archive, folder, {}

    def find_class(self, module, name):
        if module == 'torch' and name in TYPES:
            return TYPES[name]
        return KNOWN.get((module, name), Thing)

    def persistent_load(self, known):
        """A tensor's numbers, one after the other: ``known`` is ('storage', type, key, device, count)."""
        _, kind, key = known[:3]
        if key not in self.storages:
            data = self.archive.read(f'{self.folder}/data/{key}')
            self.storages[key] = from_bfloat16(data) if kind == 'bf16' else np.frombuffer(data, kind)
        return self.storages[key]


def _tensor(storage, offset, size, stride, *_):
    """The array of ``size`` in ``storage``; raises ``ValueError`` where it does not lie inside."""
    last = offset + sum((length - 1) * step for length, step in zip(size, stride))
    if min((offset, *size, *stride)) < 0 or (0 not in size and last >= len(storage)):
        raise ValueError(f'a tensor of shape {tuple(size)} is larger than its {len(storage)} numbers')
    steps = [step * storage.itemsize for step in stride]
    return np.array(np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False), order='C')


KNOWN = {('collections', 'OrderedDict'): collections.OrderedDict,
         ('torch._utils', '_rebuild_tensor_v2'): _tensor,
         ('torch._utils', '_rebuild_parameter'): lambda tensor, *_: tensor}


def read_archive(path):
    """What the file holds: nested dicts with arrays, or of a program {name: array} of all its tensors."""
    with zipfile.ZipFile(path) as archive:
        folder = next(name for name in archive.namelist() if name.endswith(PICKLE)).removesuffix(PICKLE)
        held = _Unpickler(archive, folder).load()
    return dict(_tensors(held)) if isinstance(held, Thing) else held


def _tensors(thing, prefix=''):
    """The tensors of a program's modules, by the names that their state dict would have."""
    for name, value in thing.state.items():
        if isinstance(value, Thing):
            yield from _tensors(value, f'{prefix}{name}.')
        elif isinstance(value, np.ndarray):
            yield prefix + name, value


def from_bfloat16(data):
    """Bytes of bfloat16 numbers as float32, of which they are the upper half: NumPy has no such type."""
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
