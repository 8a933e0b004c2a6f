"""A run as MindIR or ONNX graphs: image encoder, text encoder, and the score of pairs of their features."""
import json
import warnings
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from hcma import __version__
from hcma.data.crops import Decoder
from hcma.data.meta import read_meta
from hcma.data.pack import read_records
from hcma.data.whole import appearing_folder, require_free
from hcma.errors import InputError
from hcma.evaluation.weights import weightings
from hcma.interop.graphs import graphs_of
from hcma.models.hcma import build_model
from hcma.models.lora import merge_lora
from hcma.recipe_io import parse_recipe
from hcma.training.checkpoint import TOKENIZER, load_model

DESCRIPTION = 'export.json'
TOLERANCE = 1e-4
FORMATS = ('mindir', 'onnx')
RANDOM, REAL = 3, 8  # how many pairs the graphs are checked with


def export(run, folder, form, batch=1, overwrite=False, data=None):
    """Write ``folder`` with three graphs in ``form``, 'mindir' (any batch) or 'onnx' (batches of ``batch``).

    ``export.json`` beside them says how to prepare pictures and texts. Returns lines that say how far each graph is
    from the model, on random pictures and on the first ones of the packed ``data``. The compiled kernels must be off.
    Raises ``InputError`` where an operation cannot be exported.
    """
    require_free(folder, overwrite, DESCRIPTION)
    model, recipe, tokenizer = _plain(run)
    weights = weightings(model.terms, recipe.evaluate.weights)['weighted'][:len(model.levels)]
    pictures, texts = _pairs(recipe, data)
    said = f'checked with {RANDOM} random pairs' + (f' and {len(texts) - RANDOM} of {data}' if data else '')
    whole = -(-len(texts) // batch) * batch  # the first ones come again in the last batch
    pictures, texts = np.resize(pictures, (whole, *pictures.shape[1:])), list(np.resize(texts, whole))
    steps = (batch,) if form == 'onnx' else (len(texts), 1)
    inputs = {'image': (pictures,), 'text': tokenizer.encode(texts)}
    expected = {'image': _by(steps[0], _arrays(model.image_tower), inputs['image']),
                'text': _by(steps[0], _arrays(model.text_tower), inputs['text'])}
    inputs['score'] = expected['text'] + expected['image']
    expected['score'] = _scores(model, weights, expected),
    lines = []
    with appearing_folder(folder, overwrite, DESCRIPTION) as partial:
        for name, graph in graphs_of(model, weights).items():
            path = Path(partial) / f'{name}.{form}'
            _write(graph, [Tensor(one[:steps[0]]) for one in inputs[name]], path, form)
            lines.append(f'{path.name}: {_check(path, inputs[name], expected[name], steps)}')
        (Path(partial) / TOKENIZER).write_text(tokenizer.to_json(), encoding='utf-8')
        (Path(partial) / DESCRIPTION).write_text(json.dumps(_described(model, recipe, tokenizer, form, batch, weights),
                                                            indent=1), encoding='utf-8')
    return [*lines, said]


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


def _pairs(recipe, data):
    """Random pictures with captions of which one is empty and one too long, then real pairs of the packed ``data``."""
    rng, image = np.random.default_rng(0), recipe.model.image
    pictures = list(rng.integers(0, 256, (RANDOM, *image.pixels, 3), dtype=np.uint8))
    texts = ['a dog runs', '', 'a dog runs ' * recipe.model.text.length]
    if data is not None:
        decoder = Decoder(image.pixels, image.fit)
        for record in read_records(data, range(min(REAL, read_meta(data)['images']))):
            pictures.append(decoder.whole(decoder.decoded(record['image'])))
            texts.append(record['captions'][0])
    return np.stack(pictures), texts


def _arrays(cell):
    """``cell`` from arrays to a tuple of arrays."""
    def run(*arrays):
        results = cell(*map(Tensor, arrays))
        return [one.asnumpy() for one in (results if isinstance(results, tuple) else (results,))]
    return run


def _by(step, function, arrays):
    """``function`` of all rows of ``arrays``, ``step`` rows at a time."""
    parts = [function(*(one[start:start + step] for one in arrays)) for start in range(0, len(arrays[0]), step)]
    return tuple(np.concatenate(part) for part in zip(*parts))


def _scores(model, weights, features):
    """The weighted score of each text with its own image, (B,)."""
    text, image = (tuple(map(Tensor, features[name])) for name in ('text', 'image'))
    return sum(weight * np.diagonal(score.asnumpy())
               for weight, score in zip(weights, model.scaled(model.scores(text, image))))


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


def _check(path, inputs, expected, steps):
    """How far the graph is from the model, in words, at each number of rows at a time; raises ``InputError`` beyond
    the tolerance.
    """
    run = _runner(path)
    if run is None:
        return 'not checked: pip install onnxruntime'
    far = max(float(np.abs(one - other).max()) for step in steps
              for one, other in zip(_by(step, run, inputs), expected))
    if not far < TOLERANCE:
        raise InputError(f'{path.name}: its results are {far:.1e} from the model\'s; use another --format')
    return f'{far:.1e} from the model'


def _runner(path):
    """The graph in a file as a function of arrays; None where nothing can run it."""
    if path.suffix == '.mindir':
        return _arrays(nn.GraphCell(ms.load(str(path))))
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    return lambda *arrays: session.run(None, {one.name: array for one, array in zip(session.get_inputs(), arrays)})


def _described(model, recipe, tokenizer, form, batch, weights):
    image, text = recipe.model.image, recipe.model.text
    texts, images = list(model.text_tower.names), list(model.image_tower.names)
    return {'hcma': __version__, 'format': form, 'batch': batch if form == 'onnx' else 'any',
            'image': {'input': 'uint8 (batch, *size, 3), RGB; the graph normalises', 'size': image.pixels,
                      'fit': image.fit, 'resample': 'bicubic', 'outputs': images},
            'text': {'inputs': ['int32 ids (batch, length)', 'int32 count of tokens (batch,)'], 'length': text.length,
                     'begin': tokenizer.begin, 'end': tokenizer.end, 'padding': tokenizer.padding, 'clean': text.clean,
                     'outputs': texts},
            'score': {'inputs': texts + images, 'weights': dict(zip(model.levels, map(float, weights)))}}
