"""Visual question answering: the share of right answers, next to what guessing the usual answer gives."""
import numpy as np

from hcma import backend
from hcma.data.crops import Decoder
from hcma.data.pictures import pictures_of
from hcma.data.questions import read_questions, require_some
from hcma.models.batched import in_batches
from hcma.models.vqa import ImageFeatures
from hcma.recipe_io import load_recipe
from hcma.training.checkpoint import RECIPE, load_vqa, resolve_checkpoint


def vqa(run_dir, path, split=None):
    """The metrics of a VQA run on the questions of the JSONL ``path``, of those rows whose ``split`` is the one given.

    An answer counts as right if it is any of the row's. Raises ``InputError`` if no row can be used.
    """
    backend.set_up('graph', load_recipe(resolve_checkpoint(run_dir) / RECIPE).device)
    model, recipe, tokenizer, answers = load_vqa(run_dir)
    decoder = Decoder(recipe.model.image.pixels, recipe.model.image.fit)
    questions, rejects, pictures, row = pictures_of(*read_questions(path, split), decoder)
    require_some(questions, rejects, path, 'question', split)
    found = answer(model, tokenizer, pictures, row, [question.text for question in questions],
                   recipe.evaluate.batch_size)
    given = [answers.words[number] for number in found]
    return {**vqa_metrics(questions, given, answers), 'skipped': len(rejects)}


def answer(model, tokenizer, pictures, row, texts, batch):
    """The number of the best answer to every text (N,), which asks about picture ``row`` (N,) of ``pictures``."""
    look = ImageFeatures(model.encoders.image_tower.encoder).set_train(False)
    features = in_batches(look, ((picture,) for picture in pictures), batch, len(pictures), 'images')[0]
    inputs = zip((features[number] for number in row), *tokenizer.encode(texts))
    scores = in_batches(model, inputs, batch, len(texts), 'questions')[0]
    return scores.argmax(1)


def vqa_metrics(questions, given, answers):
    """Accuracies in percent of the answers ``given``, in all and per type.

    ``majority`` gives the training questions' most frequent answer to everything, ``majority_by_type`` and
    ``majority_types`` that of each type (of a type not trained on, that of all).
    """
    usual, of_type = answers.words[0], answers.of_type
    right = _right(questions, given)
    of_all = _right(questions, [usual] * len(questions))
    by_type = _right(questions, [of_type.get(question.type, usual) for question in questions])
    types = np.array([question.type for question in questions])
    kinds = sorted(set(types))
    return {'accuracy': _percent(right), 'types': {kind: _percent(right[types == kind]) for kind in kinds},
            'majority': _percent(of_all), 'majority_by_type': _percent(by_type),
            'majority_types': {kind: _percent(by_type[types == kind]) for kind in kinds},
            'counts': {kind: int((types == kind).sum()) for kind in kinds},
            'answerable': _percent(np.array([answers.index(question) is not None for question in questions]))}


def _right(questions, given):
    return np.array([answer in question.answers for question, answer in zip(questions, given)])


def _percent(right):
    return round(100 * float(right.mean()), 2)
