"""The jobs, done by hcma. Each gives measures; those under 'same' must be the peer's too."""
from hcma import cli

cli.prepare_process()

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import Tensor  # noqa: E402

from hcma import backend  # noqa: E402
from hcma.bench.losses import Gradient, Loss  # noqa: E402
from hcma.bench.peer import inputs, workplace  # noqa: E402
from hcma.bench.stopwatch import each, measure, peak_bytes, since  # noqa: E402
from hcma.models.hcma import build_model  # noqa: E402
from hcma.models.scores import LateInteraction, SentenceGlobal  # noqa: E402


class Workplace(workplace.Workplace):
    """In GRAPH_MODE, with so many threads."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        ms.set_context(runtime_num_threads=self.threads)
        backend.set_up('graph')


def prepare(place, pairs):
    """Write what all jobs read."""
    inputs.write(place, pairs)
    return {}


def step(place, kind):
    """A training step, 'fused' in one graph, 'cached' if that is compiled already, or 'staged' with pictures in
    quarters of the batch and texts in halves.
    """
    from hcma.training.graph_cache import KeptGraphs
    from hcma.training.trainer import build_step
    recipe, batch = place.recipe, [Tensor(column) for column in place.batch]
    if kind == 'staged':
        size = recipe.train.batch_size
        parts = {'image_micro_batch': max(1, size // 4), 'text_micro_batch': max(1, size // 2)}
        recipe = recipe.model_copy(update={'train': recipe.train.model_copy(update=parts)})
    train = build_step(recipe, recipe.model.text.vocab_size, 10 ** 6)
    kept = KeptGraphs(recipe)
    if kind == 'cached':
        kept.open(train, 10 ** 6, recipe.train.batch_size)
    losses = [float(train(*batch)[0].asnumpy())]
    first = since(place.launched)
    kept.close()
    losses += [float(train(*batch)[0].asnumpy()) for _ in range(workplace.UPDATES)]
    same = {'first loss': losses[0], f'loss after {workplace.UPDATES} updates': losses[-1]}
    time = measure(lambda: train(*batch)[1].asnumpy(), warm_up=0)
    return {'first': first, 'time': time, 'memory': peak_bytes(), 'same': same}


def encode(place):
    """Pictures and texts to features, without gradients."""
    model = build_model(place.recipe, place.recipe.model.text.vocab_size).set_train(False)
    image, ids, length = (Tensor(column) for column in place.batch[:3])
    return {'images': measure(lambda: model.image_tower(image)[0].asnumpy()),
            'texts': measure(lambda: model.text_tower(ids, length)[0].asnumpy())}


def contrast(place, pairs):
    """The sentence–global loss of so many pairs with its gradients."""
    text, image = workplace.contrast_rows(int(pairs), 512)
    return _loss(SentenceGlobal(), text, np.ones((len(text), 1), np.float32), image)


def words(place, pairs):
    """The word–patch loss of so many pairs with its gradients."""
    word, patch = workplace.word_rows(int(pairs), place.recipe)
    return _loss(LateInteraction(), word, np.ones(word.shape[:2], np.float32), patch)


def _loss(score, text, mask, image):
    group = np.repeat(np.arange(len(text))[:, None], 2, 1)
    given = [Tensor(array) for array in (text, mask, image)] + [Tensor(14.0, ms.float32), Tensor(group)]
    gradient, before = Gradient(Loss('blocks', score)), peak_bytes()
    value = float(gradient(*given)[0].asnumpy())
    time = measure(lambda: gradient(*given)[1][0].asnumpy(), least=2, warm_up=0)
    return {'time': time, 'memory': peak_bytes() - before, 'same': {'loss': value}}


def loader(place, packed):
    """Photographs decoded, cropped, resized and batched by the training pipeline, from the pack of that name."""
    from hcma.data.pipeline import TrainingBatches
    from hcma.data.tokenizer import train_tokenizer
    text = place.recipe.model.text
    tokenizer = train_tokenizer(place.captions, text.vocab_size, text.length)
    batches = TrainingBatches(str(place.folder / packed), place.recipe, tokenizer)
    epochs = -(-workplace.PASSED // batches.rows)

    def run():
        for epoch in range(epochs):
            for _ in batches.epoch(epoch):
                pass
    passed = sum(batches.steps(epoch) for epoch in range(epochs)) * place.recipe.train.batch_size
    return {'time': each(measure(run, 1, 0.0, 1), passed)}


def tokenizer(place):
    """CLIP's tokens of all captions."""
    from hcma.data.tokenizer import CaptionTokenizer
    from hcma.interop.tokenizers import find_tokenizer
    clip = CaptionTokenizer(find_tokenizer(workplace.clip_merges())[0], 77, clean='clip')
    time = measure(lambda: clip.encode(place.captions), 1, 1.0, 1)
    return {'time': each(time, len(place.captions)),
            'same': {'sum of ids': int(clip.encode(place.captions)[0].sum())}}
