"""What a packed data set says about itself, readable without MindSpore."""
import json
import os

from hcma.errors import InputError

FORMAT = 1
META = 'meta.json'


def read_meta(data_dir):
    """Return the meta dict of the packed data set ``data_dir``, or raise ``InputError`` if it is none."""
    path = os.path.join(data_dir, META)
    try:
        with open(path, encoding='utf-8') as file:
            meta = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f'{data_dir}: not a packed data set (no readable {META}); make one with '
                         f'tools/prepare.py PAIRS --out {data_dir}') from error
    if not isinstance(meta, dict) or meta.get('format') != FORMAT:
        raise InputError(f'{path}: not of format {FORMAT}; prepare the data anew with tools/prepare.py')
    return meta


def shard_paths(data_dir):
    """Return the paths of the shards of ``data_dir``, or raise ``InputError`` if one is missing."""
    paths = [os.path.join(data_dir, name) for name in read_meta(data_dir)['shards']]
    for path in paths:
        for needed in (path, path + '.db'):
            if not os.path.exists(needed):
                raise InputError(f'{needed}: missing; prepare the data anew with tools/prepare.py')
    return paths


def require_training_data(recipe):
    """Raise ``InputError`` unless ``recipe`` names a packed data set that fills at least one batch."""
    data, batch = recipe.data.train, recipe.train.batch_size
    if data is None:
        raise InputError('data.train: is missing; pass --set data.train=DATA, a folder made by tools/prepare.py')
    images = read_meta(data)['images']
    if batch > images:
        raise InputError(f'train.batch_size: {batch} is more than the {images} pairs of {data}; '
                         f'take a batch of at most {images}, or more data')
