"""The jobs, done by PyTorch: the models of ``*_model.py``, the losses and the loader that its users write."""
import importlib
import re

import numpy as np
import torch
from safetensors.numpy import load_file

from hcma.bench.peer import theirs_data, workplace
from hcma.bench.peer.torch_model import contrast as info_nce
from hcma.bench.peer.torch_model import late_interaction
from hcma.bench.stopwatch import measure, peak_bytes, since

NO_DECAY = re.compile(r'(?<!patch_)embedding|position|directions')
loader, tokenizer = theirs_data.loader, theirs_data.tokenizer


class Workplace(workplace.Workplace):
    """With so many threads."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        torch.set_num_threads(self.threads)

    def model(self):
        """The peer's model with the weights of ours."""
        if self.side != 'torch':
            _import_torchvision()
        module = importlib.import_module(f'hcma.bench.peer.{self.side}_model')
        return module.Model(self.recipe, load_file(self.folder / workplace.WEIGHTS))

    def tensors(self):
        """Pictures, ids and lengths."""
        image, ids, length = (torch.from_numpy(column) for column in self.batch[:3])
        return image, ids.long(), length.long()


def _import_torchvision():
    """The other projects import it; its compiled part, which they do not use here, a CPU build of torch refuses."""
    try:
        importlib.import_module('torchvision')
    except RuntimeError:
        for name in ('nms', 'qnms'):
            torch.library.define(f'torchvision::{name}', '(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')


def step(place, kind):
    """A training step: gradients, clipping, AdamW in one call for all weights."""
    model, batch, recipe = place.model(), place.tensors(), place.recipe.train
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decayed = {name for name, p in parameters if p.ndim >= 2 and not NO_DECAY.search(name)}
    groups = [{'params': [p for name, p in parameters if (name in decayed) == decays],
               'weight_decay': recipe.weight_decay if decays else 0.0} for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, recipe.lr, recipe.betas, recipe.eps, fused=True)

    def train():
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        return float(loss)
    losses = [train()]
    first = since(place.launched)
    losses += [train() for _ in range(workplace.UPDATES)]
    same = {'first loss': losses[0], f'loss after {workplace.UPDATES} updates': losses[-1]}
    return {'first': first, 'time': measure(train, warm_up=0), 'memory': peak_bytes(), 'same': same}


def encode(place):
    """Pictures and texts to features, without gradients."""
    model, (image, ids, length) = place.model().eval(), place.tensors()
    with torch.inference_mode():
        return {'images': measure(lambda: model.images(image)), 'texts': measure(lambda: model.texts(ids, length))}


def contrast(place, pairs):
    """The sentence–global loss of so many pairs with its gradients, through the whole matrix."""
    return _loss(lambda text, image: text @ image.T, *workplace.contrast_rows(int(pairs), 512))


def words(place, pairs):
    """The word–patch loss of so many pairs with its gradients, through all products."""
    word, patch = workplace.word_rows(int(pairs), place.recipe)
    mask = torch.ones(word.shape[:2], dtype=torch.bool)
    return _loss(lambda word, patch: late_interaction(word, mask, patch), word, patch)


def _loss(score, *arrays):
    text, image = (torch.from_numpy(array).requires_grad_() for array in arrays)
    scale, before = torch.tensor(np.float32(14.0), requires_grad=True), peak_bytes()

    def gradients():
        text.grad = image.grad = scale.grad = None
        loss = info_nce(scale * score(text, image))
        loss.backward()
        return float(loss)
    value = gradients()
    time = measure(gradients, least=2, warm_up=0)
    return {'time': time, 'memory': peak_bytes() - before, 'same': {'loss': value}}
