"""What a packed data set says about itself, readable without MindSpore."""
import json
import os

from hcma.errors import InputError

FORMAT = 2
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
    found = meta.get('format') if isinstance(meta, dict) else None
    if found != FORMAT:
        raise InputError(f'{path}: is of format {found}, this version of hcma reads format {FORMAT}; prepare the data '
                         f'anew with tools/prepare.py PAIRS --out {data_dir} --overwrite')
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
    """Raise ``InputError`` unless ``recipe`` names a packed data set that fills at least one batch, with the negatives,
    twins, boxes and chunks that it asks for.
    """
    data, batch = recipe.data.train, recipe.train.batch_size
    if data is None:
        raise InputError('data.train: is missing; pass --set data.train=DATA, a folder made by tools/prepare.py')
    meta = read_meta(data)
    images = meta['images']
    if batch > images:
        raise InputError(f'train.batch_size: {batch} is more than the {images} pairs of {data}; '
                         f'take a batch of at most {images}, or more data')
    if recipe.data.negatives == 'data' and not meta['negatives']:
        raise InputError(f'data.negatives: is data, but no row of {data} has a negative; pack rows with "negatives", '
                         'or take data.negatives: perturb')
    if recipe.data.twins and not meta['twins']:
        raise InputError(f'data.twins: is true, but no two rows of {data} are twins; pack rows that share a "twin", '
                         'or take data.twins: false')
    for key, own, other in (('regions', 'boxes', 'windows'), ('phrases', 'chunks', 'ngrams')):
        if getattr(recipe.model, key) == own and not meta.get(own):  # older packs do not count them
            raise InputError(f'model.{key}: is {own}, but no row of {data} has {own}; pack rows with "{own}", or take '
                             f'model.{key}: {other}')
