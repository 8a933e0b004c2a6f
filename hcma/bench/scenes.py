"""The generated scenes that recipes train on."""
import numpy as np
from PIL import Image

from hcma.data.meta import META
from hcma.data.scenes import write_scenes
from hcma.data.sources import read_pairs

PHOTOGRAPH = 640, 480
# Half of the scenes are twins whose captions state a relation.
TWINNED = {'relations': 0.5, 'twins': True, 'negatives': True, 'textured': 0.5, 'counts': 0.25}


def draw_and_pack(out, **options):
    """Scenes in ``out``/scenes, train and test packed in ``out``/data, unless they are there; see ``write_scenes``."""
    scenes, data = out / 'scenes', out / 'data'
    if not (scenes / 'choices_test.jsonl').exists():  # of all files the last
        write_scenes(scenes, **options)
    for split in ('train', 'test'):
        if not (data / split / META).exists():
            from hcma.data.pack import pack  # loads MindSpore
            data.mkdir(exist_ok=True)
            pairs, rejects = read_pairs(scenes / f'{split}.jsonl', 'jsonl')
            pack(pairs, data / split, rejects, f'{split}.jsonl')


def draw_photographs(out, count=1024):
    """Scenes in ``out`` as large, and as costly to decode, as photographs; returns the path of their jsonl."""
    write_scenes(out, train=count, val=0, test=0)
    for number, path in enumerate(sorted((out / 'images' / 'train').iterdir())):
        noise = np.random.default_rng(number).normal(0, 12, (*PHOTOGRAPH[::-1], 3))
        large = np.asarray(Image.open(path).resize(PHOTOGRAPH, Image.Resampling.BICUBIC))
        Image.fromarray(np.clip(large + noise, 0, 255).astype(np.uint8)).save(path, quality=90)
    return out / 'train.jsonl'
