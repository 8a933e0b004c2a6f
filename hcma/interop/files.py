"""Weight files of other projects as float32 arrays by name."""
import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, deserialize

from hcma.errors import InputError
from hcma.interop.torch_archive import from_bfloat16, read_archive

ARCHIVE = b'PK\x03\x04'  # the first bytes of a zip archive, whole or not
PICKLED = ('.bin', '.pt', '.pth', '.ckpt')
_TYPES = {'F64': np.float64, 'F32': np.float32, 'F16': np.float16, 'I64': np.int64, 'I32': np.int32}


def read_json(path):
    """The object in a JSON file; raises ``InputError``."""
    try:
        values = json.loads(Path(path).read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise InputError(f'{path}: cannot be read as JSON ({error})') from None
    if not isinstance(values, dict):
        raise InputError(f'{path}: must be a JSON object, it is a {type(values).__name__}')
    return values


def read_folder(folder, names):
    """The arrays {name: array} of the first file of ``names`` in ``folder``, or of the parts that its index lists."""
    folder = Path(folder)
    for name in names:
        if (folder / name).is_file():
            return read_weights(folder / name)
        index = folder / f'{name}.index.json'
        if index.is_file():
            parts = dict.fromkeys(read_json(index).get('weight_map', {}).values())
            return {key: array for part in parts for key, array in read_weights(folder / part).items()}
    raise InputError(f'{folder}: holds none of {", ".join(names)}; give a folder with the weights beside its config')


def read_weights(path):
    """The arrays {name: array} of a state dict, floats as float32; raises ``InputError``.

    A wrapper ``state_dict`` is opened and prefixes ``module.`` of data-parallel training are dropped.
    """
    path = Path(path)
    if path.suffix == '.safetensors':
        arrays = _read_safetensors(path)
    elif path.suffix in PICKLED:
        arrays = _read_pickled(path)
    else:
        raise InputError(f'{path}: not a file of weights; give .safetensors or {", ".join(PICKLED)}')
    if arrays and all(name.startswith('module.') for name in arrays):
        arrays = {name.removeprefix('module.'): array for name, array in arrays.items()}
    return {name: array.astype(np.float32) if array.dtype.kind == 'f' else array for name, array in arrays.items()}


def _read_safetensors(path):
    try:
        entries = deserialize(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise InputError(f'{path}: cannot be read ({error}); take another copy of it') from None
    return {name: _array(entry, f'{path}: {name}') for name, entry in entries}


def _array(entry, where):
    if entry['dtype'] == 'BF16':
        return from_bfloat16(entry['data']).reshape(entry['shape'])
    if entry['dtype'] not in _TYPES:
        raise InputError(f'{where} is of type {entry["dtype"]}; save it as F32, F16 or BF16')
    return np.frombuffer(entry['data'], _TYPES[entry['dtype']]).reshape(entry['shape'])


def _read_pickled(path):
    try:
        with open(path, 'rb') as file:
            is_archive = file.read(len(ARCHIVE)) == ARCHIVE
        state = read_archive(path) if is_archive else _read_with_torch(path)
    except InputError:
        raise
    except Exception as error:  # pickle and torch raise nearly anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f'{path}: cannot be read as weights ({reason}); take another copy of it, or save its state '
                         'dict alone') from None
    state = state.get('state_dict', state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, np.ndarray) for value in state.values()):
        raise InputError(f'{path}: holds no state dict (names and tensors); save one')
    return state


def _read_with_torch(path):
    """The state dict in a file that is no zip archive, as torch wrote them before 1.6."""
    try:
        import torch
    except ImportError:
        raise InputError(f'{path}: only torch reads a file that is as old as this; pip install torch, or save it as '
                         'safetensors') from None
    state = torch.load(path, map_location='cpu', weights_only=True)
    state = state.get('state_dict', state)
    return {name: (value.float() if value.is_floating_point() else value).numpy() for name, value in state.items()}
