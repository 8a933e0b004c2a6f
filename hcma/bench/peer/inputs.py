"""Writes what both sides are given: weights, a batch with real pixels, photographs as files and packed, captions."""
import io

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

from hcma.bench.peer import workplace
from hcma.data.pack import pack
from hcma.data.sources import read_pairs
from hcma.models.hcma import build_model

MOST = 1024  # pairs


def write(place, pairs):
    """Fill the folder of ``place`` from the pairs that ``tools/prepare.py`` would read at the path ``pairs``."""
    recipe = place.recipe
    model = build_model(recipe, recipe.model.text.vocab_size)
    save_file({parameter.name: parameter.asnumpy() for parameter in model.get_parameters()},
              place.folder / workplace.WEIGHTS)
    found = read_pairs(pairs)[0][:MOST]
    (place.folder / workplace.PHOTOGRAPHS).mkdir()
    for number, pair in enumerate(found):
        (place.folder / workplace.PHOTOGRAPHS / f'{number:05d}.jpg').write_bytes(pair.image.read())
    captions = [caption for pair in found for caption in pair.captions]
    (place.folder / workplace.CAPTIONS).write_text('\n'.join(captions), encoding='utf-8')
    np.savez(place.folder / workplace.BATCH, **_batch(recipe, found))
    pack(found, place.folder / 'whole', overwrite=True)
    pack(found, place.folder / 'fitted', max_side=fitted_side(recipe), overwrite=True)


def fitted_side(recipe):
    """The longest side of packed pictures of which even the smallest crop is hardly enlarged."""
    return round(max(recipe.model.image.pixels) / recipe.data.crop_area[0] ** 0.5)


def _batch(recipe, pairs):
    """Photographs, and random tokens between CLIP's begin and end, which have the largest ids."""
    size, text, rng = recipe.train.batch_size, recipe.model.text, np.random.default_rng(0)
    height, width = recipe.model.image.pixels
    pictures = [Image.open(io.BytesIO(pairs[row % len(pairs)].image.read())).convert('RGB').resize((width, height))
                for row in range(size)]
    length = rng.integers(min(6, text.length), min(24, text.length) + 1, size).astype(np.int32)
    ids = rng.integers(1, text.vocab_size - 2, (size, text.length)).astype(np.int32)
    ids[:, 0] = text.vocab_size - 2
    ids[np.arange(size), length - 1] = text.vocab_size - 1
    ids[np.arange(text.length) >= length[:, None]] = 0
    return {'image': np.stack(pictures), 'ids': ids, 'length': length,
            'group': np.stack([np.arange(size), size + np.arange(size)], 1)}
