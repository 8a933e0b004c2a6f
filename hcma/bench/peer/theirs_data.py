"""What PyTorch's users feed their models with: a DataLoader with Pillow's transforms, CLIP's tokenizer in Python."""
import importlib.util
import math
import random

import numpy as np
import torch
from PIL import Image

from hcma.bench.peer.workplace import PASSED, open_clip_file
from hcma.bench.stopwatch import each, measure


class Photographs(torch.utils.data.Dataset):
    """JPEG files through RandomResizedCrop (bicubic), ToTensor and Normalize, as CLIP's training code has them."""

    def __init__(self, paths, recipe):
        self.paths = [paths[number % len(paths)] for number in range(max(PASSED, len(paths)))]
        self.size = recipe.model.image.pixels[::-1]
        self.area, self.aspect = recipe.data.crop_area, recipe.data.crop_aspect
        self.mean, self.deviation = (torch.tensor(values).view(3, 1, 1)
                                     for values in (recipe.model.image.mean, recipe.model.image.deviation))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        image = Image.open(self.paths[number]).convert('RGB')
        cut = image.crop(self._box(*image.size)).resize(self.size, Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.array(cut)).permute(2, 0, 1).contiguous().float().div(255)
        return pixels.sub_(self.mean).div_(self.deviation)

    def _box(self, width, height):
        for _ in range(10):
            area = width * height * random.uniform(*self.area)
            ratio = math.exp(random.uniform(*map(math.log, self.aspect)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left, top = random.randint(0, width - w), random.randint(0, height - h)
                return left, top, left + w, top + h
        side = min(width, height)
        return (width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2


def loader(place, packed):
    """All photographs once, in batches."""
    data, recipe = Photographs(place.photographs, place.recipe), place.recipe
    batches = torch.utils.data.DataLoader(data, recipe.train.batch_size, shuffle=True, drop_last=True,
                                          num_workers=recipe.data.workers)

    def run():
        for _ in batches:
            pass
    return {'time': each(measure(run, 1, 0.0, 1), len(batches) * recipe.train.batch_size)}


def tokenizer(place):
    """The tokens of all captions by CLIP's tokenizer in Python, as open_clip has it."""
    # Read by itself: the package would load torchvision, whose compiled part a CPU build of torch refuses.
    spec = importlib.util.spec_from_file_location('clip_tokenizer', open_clip_file('tokenizer.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    clip = module.SimpleTokenizer()
    time = measure(lambda: clip(place.captions), 1, 1.0, 1)
    return {'time': each(time, len(place.captions)),
            'same': {'sum of ids': int(clip(place.captions).sum())}}
