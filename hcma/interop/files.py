"""Weight files of other projects as float32 arrays by name."""
import json
import zipfile
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, deserialize

from hcma.errors import InputError

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
    if entry['dtype'] == 'BF16':  # NumPy has no such type: the upper half of a float32
        bits = np.frombuffer(entry['data'], np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(entry['shape'])
    if entry['dtype'] not in _TYPES:
        raise InputError(f'{where} is of type {entry["dtype"]}; save it as F32, F16 or BF16')
    return np.frombuffer(entry['data'], _TYPES[entry['dtype']]).reshape(entry['shape'])


def _read_pickled(path):
    try:
        import torch
    except ImportError:
        raise InputError(f'{path}: only torch reads pickled weights; pip install torch, or save them as '
                         'safetensors') from None
    try:
        if _is_script(path):  # OpenAI's own files are programs; only their weights are taken
            state = torch.jit.load(str(path), map_location='cpu').state_dict()
        else:
            state = torch.load(path, map_location='cpu', weights_only=True)
    except Exception as error:  # torch and pickle raise nearly anything
        raise InputError(f'{path}: torch cannot load it as weights ({str(error).splitlines()[0]}); save its state '
                         'dict alone') from None
    state = state.get('state_dict', state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError(f'{path}: holds no state dict (names and tensors); save one')
    return {name: (value.float() if value.is_floating_point() else value).numpy() for name, value in state.items()}


def _is_script(path):
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.rsplit('/', 1)[-1] == 'constants.pkl' for name in archive.namelist())
