"""What there is to train: for each kind of run its recipe, tokenizer, batches and network.

``task_of(recipe)`` gives a task. ``recipe`` is the resolved recipe; ``load(newest)``, with the newest checkpoint of a
run that goes on or None, sets ``tokenizer``, ``texts`` (the ``text_name`` that it will see), ``batches`` and
``fingerprint`` of the data, and ``files``, {name: text} that a checkpoint must hold besides; ``network()`` is what
``HCMATrainStep`` trains, ``inputs(batch, clock)`` what it takes, and ``summary()`` what else the metrics say.
"""
import hashlib

import numpy as np

from hcma.data.crops import Decoder
from hcma.data.pictures import pictures_of
from hcma.data.question_batches import QuestionBatches
from hcma.data.questions import most_frequent_answers, read_questions, require_questions, require_some
from hcma.errors import InputError
from hcma.losses.answers import AnswerLoss
from hcma.models.batched import in_batches
from hcma.models.vqa import READS, ImageFeatures, build_vqa
from hcma.recipe_io import load_recipe
from hcma.training.alignment import Alignment, Task
from hcma.training.checkpoint import ANSWERS, RECIPE, load_model, load_vqa, resolve_checkpoint
from hcma.training.distillation import Distillation


def task_of(recipe):
    """The task of a recipe; raises ``InputError`` where its data or its checkpoint cannot be used."""
    if recipe.vqa is not None:
        return QuestionAnswering(recipe)
    return Alignment(recipe) if recipe.distill is None else Distillation(recipe)


class QuestionAnswering(Task):
    """Questions about pictures, and a head on the encoders of an alignment run."""
    name, text_name = 'vqa', 'questions'

    def __init__(self, recipe):
        require_questions(recipe)
        aligned = load_recipe(resolve_checkpoint(recipe.vqa.checkpoint) / RECIPE)
        for section in ('model', 'loss'):
            own = getattr(recipe, section)
            if section in recipe.model_fields_set and own != getattr(aligned, section):
                raise InputError(f'{section}: a VQA run has that of vqa.checkpoint ({recipe.vqa.checkpoint}), '
                                 'but the recipe gives another; leave it out')
        self.recipe = recipe.model_copy(update={'model': aligned.model, 'loss': aligned.loss})

    def load(self, newest):
        """Read questions and pictures, and what the frozen image encoder makes of these."""
        recipe, path = self.recipe, self.recipe.data.train
        decoder = Decoder(recipe.model.image.pixels, recipe.model.image.fit)
        questions, rejects, pictures, row = pictures_of(*read_questions(path, recipe.vqa.split), decoder)
        require_some(questions, rejects, path, 'question', recipe.vqa.split)
        self.fingerprint = _fingerprint(questions, pictures, row)
        self.texts = [question.text for question in questions]
        if newest is not None:
            self.model, _, self.tokenizer, answers = load_vqa(newest)
        else:
            answers = most_frequent_answers(questions, recipe.vqa.answers)
            encoders, _, self.tokenizer = load_model(recipe.vqa.checkpoint)
            self.model = build_vqa(recipe, encoders, len(answers.words))
        self.model.train_only(recipe.vqa.frozen)
        self.files = {ANSWERS: answers.to_json()}
        self.batches = self._batches(self._images(pictures), questions, row, answers)

    def _images(self, pictures):
        """Pictures, or the features of every picture where their encoder is not trained."""
        self.has_features = 'image' in self.recipe.vqa.frozen or not READS[self.recipe.vqa.head]['image']
        if not self.has_features:
            return pictures
        look = ImageFeatures(self.model.encoders.image_tower.encoder).set_train(False)
        rows = ((picture,) for picture in pictures)
        return in_batches(look, rows, self.recipe.evaluate.batch_size, len(pictures), 'images')[0]

    def _batches(self, images, questions, row, answers):
        answer = [answers.index(question) for question in questions]
        known = np.array([number for number, index in enumerate(answer) if index is not None], np.int64)
        ids, lengths = self.tokenizer.encode([self.texts[number] for number in known])
        answer = np.array([answer[number] for number in known], np.int32)
        return QuestionBatches(images, row[known], ids, lengths, answer, self.recipe)

    def network(self):
        """The model in its loss."""
        return AnswerLoss(self.model, self.has_features)


def _fingerprint(questions, pictures, row):
    digest = hashlib.sha256(repr([(question.text, question.answers, question.type) for question in questions]).encode())
    digest.update(row.tobytes())
    for picture in pictures:
        digest.update(picture.tobytes())
    return digest.hexdigest()
