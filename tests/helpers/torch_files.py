"""Files as torch writes them, written without torch: a zip archive of a pickle and of the numbers of each tensor."""
import io
import pickle
import sys
import types
import zipfile

import numpy as np


class _Storage:
    """The numbers of one array: what the pickle names, and the archive holds."""

    def __init__(self, array, number):
        self.array, self.number = array, number


def _rebuild_tensor_v2(*arguments):
    """Only its name is stored."""


class Module:
    """A part of a program: its tensors and further parts."""

    def __init__(self, tensors):
        for name, array in tensors.items():
            first, _, rest = name.partition('.')
            if rest:
                inner = {key.removeprefix(f'{first}.'): value for key, value in tensors.items()
                         if key.startswith(f'{first}.')}
                setattr(self, first, Module(inner))
            else:
                setattr(self, name, array)


class _Pickler(pickle.Pickler):
    def __init__(self, file, fake):
        super().__init__(file, 2)
        self.fake, self.storages = fake, []

    def persistent_id(self, value):
        """What stands for the numbers of an array."""
        if not isinstance(value, _Storage):
            return None
        kind = getattr(self.fake, f'{NAMES[value.array.dtype]}Storage')
        return 'storage', kind, str(value.number), 'cpu', value.array.size

    def reducer_override(self, value):
        """An array is a call of what rebuilds it, with its numbers in reverse where it is transposed."""
        if not isinstance(value, np.ndarray):
            return NotImplemented
        base = value if value.flags.c_contiguous else value.T
        strides = tuple(step // value.itemsize for step in value.strides)
        storage = np.ascontiguousarray(base).reshape(-1)
        self.storages.append(storage)
        return _rebuild_tensor_v2, (_Storage(storage, len(self.storages) - 1), 0, value.shape, strides, False, {})


NAMES = {np.dtype(np.float32): 'Float', np.dtype(np.float16): 'Half', np.dtype(np.int64): 'Long'}


def write_torch_file(path, held):
    """Write ``held``, nested dicts of arrays or a ``Module``, as ``torch.save`` and ``torch.jit.save`` would."""
    fake = {name: types.ModuleType(name) for name in ('torch', 'torch._utils', '__torch__', '__torch__.clip')}
    own = {name: sys.modules.get(name) for name in fake}
    for name in NAMES.values():
        storage = type(f'{name}Storage', (), {'__module__': 'torch'})
        setattr(fake['torch'], f'{name}Storage', storage)
    fake['torch._utils']._rebuild_tensor_v2, fake['__torch__.clip'].Module = _rebuild_tensor_v2, Module
    _rebuild_tensor_v2.__module__, Module.__module__ = 'torch._utils', '__torch__.clip'
    sys.modules.update(fake)
    try:
        file = io.BytesIO()
        pickler = _Pickler(file, fake['torch'])
        pickler.dump(held)
    finally:
        for name, module in own.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('weights/data.pkl', file.getvalue())
        for number, storage in enumerate(pickler.storages):
            archive.writestr(f'weights/data/{number}', storage.tobytes())
