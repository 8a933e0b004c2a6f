"""Small packed data sets for tests."""
import json

import numpy as np
from PIL import Image

from hcma.data.pack import pack
from hcma.data.sources import read_pairs

WORDS = ('red', 'blue', 'cat', 'dog', 'sofa', '猫', '沙发', 'left', 'above', 'sits', 'lies', 'on')


def write_pairs(folder, count=24, seed=0, captions=3):
    """Write ``count`` noisy pictures of different sizes and their captions; returns the path of the JSONL."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        height, width = rng.integers(20, 40, 2)
        noise = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f'{number}.png')
        rows.append({'image': f'{number}.png', 'captions': [' '.join(rng.choice(WORDS, 4)) + f' {number} {one}'
                                                            for one in range(captions)]})
    path = folder / 'pairs.jsonl'
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')
    return path


def make_pack(folder, rows=None, shards=1, **options):
    """Pack ``rows`` (dicts of image path and captions), or else ``write_pairs(**options)``; returns the pack's path."""
    if rows is None:
        path = write_pairs(folder / 'pairs', **options)
    else:
        path = folder / 'pairs.jsonl'
        path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')
    pairs, rejects = read_pairs(str(path))
    pack(pairs, str(folder / 'pack'), rejects, path.name, shards=shards)
    return folder / 'pack'
