"""A run as MindIR or ONNX graphs: image encoder, text encoder, and the score of pairs of their features."""
import json
import warnings
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma import __version__
from hcma.data.whole import appearing_folder, require_free
from hcma.errors import InputError
from hcma.evaluation.weights import weightings
from hcma.models.hcma import build_model
from hcma.models.layers import NORM_EPS
from hcma.models.levels import LevelScores
from hcma.models.lora import merge_lora
from hcma.models.towers import Projection
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import TOKENIZER, load_model

DESCRIPTION = 'export.json'
TOLERANCE = 1e-4
FORMATS = ('mindir', 'onnx')


class PortableProjection(nn.Cell):
    """``Projection`` with a root and a division: ONNX export of MindSpore knows no ``Rsqrt``."""

    def __init__(self, projection):
        super().__init__()
        self.linear = projection.linear

    def construct(self, x):
        rows = ops.cast(self.linear(x.reshape(-1, x.shape[-1])), ms.float32)
        rows = rows / ops.sqrt((rows * rows).sum(-1, keepdims=True) + NORM_EPS)
        return rows.reshape(x.shape[:-1] + (-1,))


class ImageGraph(nn.Cell):
    """Pictures (B, S, S, 3) uint8 to the image tower's features."""

    def __init__(self, tower):
        super().__init__(auto_prefix=False)
        self.tower = tower

    def construct(self, image):
        return self.tower(image)


class TextGraph(nn.Cell):
    """Ids (B, L) int32 and lengths (B,) int32 to the text tower's features."""

    def __init__(self, tower):
        super().__init__(auto_prefix=False)
        self.tower = tower

    def construct(self, ids, length):
        return self.tower(ids, length)


class ScoreGraph(nn.Cell):
    """Features of B texts, then of their B images, to the weighted score of every pair (B,)."""

    def __init__(self, model, texts, weights):
        super().__init__(auto_prefix=False)
        self.texts = texts
        self.levels = LevelScores(model.levels, pairs=True, kind=model.scores.kind)
        scale = np.exp(model.log_scale.asnumpy().astype(np.float64))
        bias = 0.0 if model.bias is None else model.bias.asnumpy()
        self.weights = tuple(float(weight) for weight in weights * scale)
        self.offset = float((weights * bias).sum())

    def construct(self, *features):
        scores = self.levels(features[:self.texts], features[self.texts:])
        total = self.offset
        for weight, score in zip(self.weights, scores):
            total = total + weight * score
        return total


def export(run, folder, form, batch=1, overwrite=False):
    """Write ``folder`` with three graphs in ``form``, 'mindir' (any batch) or 'onnx' (batches of ``batch``).

    ``export.json`` beside them says how to prepare pictures and texts. Returns lines that say how far each graph is
    from the model. The compiled kernels must be off. Raises ``InputError`` where an operation cannot be exported.
    """
    require_free(folder, overwrite, DESCRIPTION)
    model, recipe, tokenizer = _plain(run)
    inputs = _inputs(recipe, tokenizer, batch)
    weights = weightings(model.terms, recipe.evaluate.weights)['weighted'][:len(model.levels)]
    original = {'image': model.image_tower(*inputs['image']), 'text': model.text_tower(*inputs['text'])}
    inputs['score'] = original['text'] + original['image']
    for tower in (model.image_tower, model.text_tower):
        for name, cell in list(tower.name_cells().items()):
            if isinstance(cell, Projection):
                setattr(tower, name, PortableProjection(cell))
    graphs = {'image': ImageGraph(model.image_tower), 'text': TextGraph(model.text_tower),
              'score': ScoreGraph(model, len(original['text']), weights)}
    original['score'] = graphs['score'](*inputs['score'])
    lines = []
    with appearing_folder(folder, overwrite, DESCRIPTION) as partial:
        for name, graph in graphs.items():
            path = Path(partial) / f'{name}.{form}'
            _write(graph.set_train(False), inputs[name], path, form)
            lines.append(f'{path.name}: {_check(path, inputs[name], original[name], form)}')
        (Path(partial) / TOKENIZER).write_text(tokenizer.to_json(), encoding='utf-8')
        (Path(partial) / DESCRIPTION).write_text(json.dumps(_described(model, recipe, tokenizer, form, batch, weights),
                                                            indent=1), encoding='utf-8')
    return lines


def _plain(run):
    """The run's model without a fusion and with its low-rank additions merged."""
    model, recipe, tokenizer = load_model(run)
    if recipe.model.regions == 'boxes' or recipe.model.phrases == 'chunks':
        raise InputError(f'{run}: reads boxes or chunks that are given with the data, which a graph has no input for')
    values = recipe.model_dump(mode='json')
    values['model'].update(fusion=None)
    values['evaluate']['weights'].pop('matching', None)
    values['loss']['weights'].pop('matching', None)
    for tower in ('image', 'text'):
        values['model'][tower]['train'] = 'all'
    recipe = parse_recipe(values, str(run))
    arrays, plain = merge_lora(model), build_model(recipe, tokenizer.vocab_size)
    for parameter in plain.get_parameters():
        if parameter.name != 'log_variance':  # one more with a fusion; no score reads it
            parameter.set_data(Tensor(arrays[parameter.name]))
    return plain.set_train(False), recipe, tokenizer


def _inputs(recipe, tokenizer, batch):
    """Random pictures, and captions: real words, an empty one, one that is too long."""
    side = recipe.model.image.size
    pictures = np.random.default_rng(0).integers(0, 256, (batch, side, side, 3), dtype=np.uint8)
    ids, lengths = tokenizer.encode((['a dog runs', '', 'a dog runs ' * recipe.model.text.length] * batch)[:batch])
    return {'image': (Tensor(pictures),), 'text': (Tensor(ids), Tensor(lengths))}


def _write(graph, inputs, path, form):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            if form == 'onnx':
                ms.onnx.export(graph, *inputs, file_name=str(path))
            else:
                dynamic = [Tensor(shape=(None,) + tuple(one.shape[1:]), dtype=one.dtype) for one in inputs]
                ms.export(graph, *dynamic, file_name=str(path), file_format='MINDIR')
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f'{path.name}: MindSpore cannot export this model ({reason}); '
                         f'try --format {FORMATS[form == "mindir"]}') from None


def _check(path, inputs, expected, form):
    """How far the graph is from the model, in words; raises ``InputError`` beyond the tolerance."""
    expected = expected if isinstance(expected, tuple) else (expected,)
    if form == 'mindir':
        found = nn.GraphCell(ms.load(str(path)))(*inputs)
        found = [one.asnumpy() for one in (found if isinstance(found, tuple) else (found,))]
    else:
        try:
            import onnxruntime
        except ImportError:
            return 'not checked: pip install onnxruntime'
        session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
        found = session.run(None, {one.name: given.asnumpy() for one, given in zip(session.get_inputs(), inputs)})
    far = max(float(np.abs(one - other.asnumpy()).max()) for one, other in zip(found, expected))
    if not far < TOLERANCE:
        raise InputError(f'{path.name}: its results are {far:.1e} from the model\'s; use another --format')
    return f'{far:.1e} from the model'


def _described(model, recipe, tokenizer, form, batch, weights):
    image, text = recipe.model.image, recipe.model.text
    texts, images = list(model.text_tower.names), list(model.image_tower.names)
    return {'hcma': __version__, 'format': form, 'batch': batch if form == 'onnx' else 'any',
            'image': {'input': 'uint8 (batch, size, size, 3), RGB; the graph normalises', 'size': image.size,
                      'fit': image.fit, 'resample': 'bicubic', 'outputs': images},
            'text': {'inputs': ['int32 ids (batch, length)', 'int32 count of tokens (batch,)'], 'length': text.length,
                     'begin': tokenizer.begin, 'end': tokenizer.end, 'padding': tokenizer.padding, 'clean': text.clean,
                     'outputs': texts},
            'score': {'inputs': texts + images, 'weights': dict(zip(model.levels, map(float, weights)))}}
