"""Files of torch are read without torch and without running anything in them."""
import argparse
import os

import numpy as np
import pytest

from hcma.errors import InputError
from hcma.interop.convert import convert
from hcma.interop.files import read_weights
from helpers.foreign_weights import config_of, openai_tensors, tensors_of, write_model, write_tokenizer
from helpers.torch_files import Module, write_torch_file

TENSORS = {'weight': np.arange(6, dtype=np.float32).reshape(2, 3), 'part.half': np.arange(4, dtype=np.float16),
           'part.turned': np.arange(6, dtype=np.float32).reshape(3, 2).T, 'count': np.array(3, np.int64)}


class Evil:
    def __reduce__(self):
        return os.mkdir, ('broken into',)


@pytest.mark.parametrize('held', [TENSORS, {'state_dict': TENSORS, 'epoch': 3, 'options': argparse.Namespace(lr=1.0)},
                                  Module(TENSORS), {f'module.{name}': array for name, array in TENSORS.items()},
                                  {'state_dict': TENSORS, 'hook': Evil()}], ids=lambda held: type(held).__name__)
def test_tensors_come_out_as_they_went_in(held, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_torch_file('weights.pt', held)
    found = read_weights('weights.pt')
    assert found.keys() == TENSORS.keys() and os.listdir() == ['weights.pt']
    for name, array in TENSORS.items():
        assert np.array_equal(found[name], array) and found[name].shape == array.shape


def test_openais_program_is_converted_to_what_its_tensors_give(tmp_path):
    tensors = openai_tensors(tensors_of(config_of('clip')))
    stated = {name: np.array(9) for name in ('input_resolution', 'context_length', 'vocab_size')}
    write_tokenizer(tmp_path, 'clip')
    write_torch_file(tmp_path / 'ViT.pt', Module({**tensors, **stated}))
    convert(tmp_path / 'ViT.pt', tmp_path / 'one')
    convert(write_model(tmp_path / 'hf', config_of('clip'), tensors_of(config_of('clip'))), tmp_path / 'other')
    one, other = (read_weights(tmp_path / name / 'model.safetensors') for name in ('one', 'other'))
    assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_what_is_no_state_dict_is_refused(tmp_path):
    write_torch_file(tmp_path / 'list.pt', [TENSORS['weight']])
    with pytest.raises(InputError, match='list.pt: holds no state dict'):
        read_weights(tmp_path / 'list.pt')
    write_torch_file(tmp_path / 'cut.pt', TENSORS)
    (tmp_path / 'cut.pt').write_bytes((tmp_path / 'cut.pt').read_bytes()[:-400])
    with pytest.raises(InputError, match='cut.pt: .* take another copy'):
        read_weights(tmp_path / 'cut.pt')
