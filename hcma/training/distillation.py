"""What a distillation trains: a student, on the batches of an alignment run and the features of a teacher."""
import hashlib
import json

from hcma.data.meta import read_meta
from hcma.data.pipeline import TrainingBatches
from hcma.data.teaching import TeacherInputs, TeacherPlaces
from hcma.data.tokenizer import load_tokenizer
from hcma.errors import InputError
from hcma.losses.student import StudentLoss
from hcma.models.layers import Init
from hcma.models.teacher import Teacher
from hcma.recipe_io import load_recipe
from hcma.training.alignment import Alignment
from hcma.training.beginning import begin, require_narrower
from hcma.training.checkpoint import MODEL, RECIPE, TOKENIZER, load_model, resolve_checkpoint
from hcma.training.clock import DATA
from hcma.training.precision import set_precision
from hcma.training.teacher_cache import TeacherCache

TEACHER = 'teacher.json'
# Keeps the draw of the projections apart from that of the weights.
PROJECTIONS = 1


class Distillation(Alignment):
    """Images and captions of a packed data set, and for each batch what the teacher, or a cache, makes of it."""
    name = 'distillation'

    def __init__(self, recipe):
        super().__init__(recipe)
        self.run = recipe.distill.teacher
        if self.run is None:
            raise InputError('distill.teacher: is missing; pass tools/distill.py --teacher RUN, a trained run or one '
                             'of its checkpoints')
        self.folder = resolve_checkpoint(self.run)
        self.taught_by = load_recipe(self.folder / RECIPE)
        require_common(recipe, self.taught_by, self.run)
        require_narrower(recipe, self.taught_by, self.run)

    def load(self, newest):
        """Read the captions, wake the teacher, and set up the batches and the cache."""
        self.read(newest)
        known = teacher_fingerprint(self.folder)
        _require_teacher(newest, known, self.run)
        self.files = {TEACHER: json.dumps({'run': str(self.run), 'fingerprint': known})}
        model, self.taught_by, tokenizer = load_model(self.folder)
        self.teacher = Teacher(model, self.taught_by.model.image.grid, len(image_inputs(self.taught_by)))
        _set_precision(model, self.taught_by, self.run)
        self.same_words = tokenizer.to_json() == self.tokenizer.to_json()
        live = TeacherInputs(self.taught_by, tokenizer, self.tokenizer)
        if self.recipe.distill.compares('word'):
            live.align.require_some(self.texts, 'the student', f'the teacher {self.run}')
        self.batches, self.cache = self._batches(live), None
        if self.recipe.distill.cache is not None:
            self.cache = TeacherCache(self.recipe, known, self.fingerprint, self.batches.rows, self.teacher.names)
            self.cache.fill(self.teacher, self.batches, {self.recipe.augmentation(epoch)
                                                         for epoch in range(self.recipe.train.epochs)})
            self.batches = self._batches(TeacherPlaces(tokenizer, self.tokenizer))

    def _batches(self, teacher):
        return TrainingBatches(self.recipe.data.train, self.recipe, self.tokenizer, teacher=teacher)

    def inputs(self, batch, clock):
        """The student's columns, the teacher's features of them, and how words align."""
        own = len(self.recipe.columns)
        columns, align = batch[own:-1], batch[-1]
        if self.cache is not None:
            with clock.part(DATA):
                return *batch[:own], *self.cache.read(*(column.asnumpy() for column in columns)), align
        with clock.part('teacher'):
            return *batch[:own], *self.teacher(*columns), align

    def network(self):
        """The student in its whole loss; a new one may begin with the teacher's weights."""
        recipe, own = self.recipe, super().network()
        if self.starts_anew and recipe.distill.start is not None:
            begin(own.model, recipe, self.teacher.model, self.taught_by, self.same_words)
        return StudentLoss(own, recipe.distill, self.teacher, len(recipe.columns), recipe.model.image.grid,
                           Init((recipe.seed, PROJECTIONS)))

    def _tokenizer(self, newest):
        """A student that begins with the teacher's weights has its tokenizer as well, unless another is given."""
        if newest is None and self.recipe.distill.start is not None and self.recipe.data.tokenizer is None:
            text = self.recipe.model.text
            return load_tokenizer(self.folder / TOKENIZER, text.length, **text.framing)
        return super()._tokenizer(newest)

    def summary(self):
        """Who taught, and what a cache saved."""
        return {'teacher': str(self.run), **({} if self.cache is None else {'cache': self.cache.summary()})}


def image_inputs(recipe):
    """What the image tower of a recipe reads when it sees whole pictures."""
    return ('image', 'boxes') if recipe.model.regions == 'boxes' else ('image',)


def require_common(recipe, teacher, run):
    """Raise ``InputError`` where the student of ``recipe`` is to learn what its teacher, trained by the recipe
    ``teacher`` in ``run``, does not know, or the data lacks what the teacher reads.
    """
    if teacher.vqa is not None:
        raise InputError(f'{run}: answers questions, so it cannot teach alignment; take the run that it began with, '
                         f'{teacher.vqa.checkpoint}')
    terms = teacher.loss.terms(teacher.model)
    for key, term in recipe.distill.needs():
        if term not in terms:
            raise InputError(f'distill.{key}: is about {term}, which the student trains, but the teacher {run} trains '
                             f'{", ".join(terms)} only; leave it out, or take another teacher')
    meta = read_meta(recipe.data.train)
    for key, part in (('regions', 'boxes'), ('phrases', 'chunks')):
        if getattr(teacher.model, key) == part and not meta.get(part):
            raise InputError(f'{recipe.data.train}: no row has {part}, which the teacher {run} reads '
                             f'(model.{key}); pack rows with "{part}", or take another teacher')


def teacher_fingerprint(folder):
    """What identifies the features that the checkpoint ``folder`` gives: recipe, weights, tokenizer."""
    digest = hashlib.sha256()
    for name in (RECIPE, MODEL, TOKENIZER):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def _set_precision(model, taught_by, run):
    """Let the teacher compute in the types that it was trained in."""
    try:
        set_precision(model, taught_by.precision)
    except InputError as error:
        raise InputError(f'the teacher {run}: {error}') from None


def _require_teacher(newest, known, run):
    """Refuse to go on from a checkpoint that another teacher taught."""
    if newest is None:
        return
    before = json.loads((newest / TEACHER).read_text(encoding='utf-8'))
    if before['fingerprint'] != known:
        raise InputError(f'{run}: is not the teacher that this run began with ({before["run"]}); resume with that one')
