"""The section of the recipe that says what a student learns from a teacher."""
from typing import Annotated, Literal, Optional

from pydantic import Field, model_validator

from hcma.recipe_loss import Level
from hcma.recipe_section import Section

Feature = Literal['word', 'patch', 'sentence', 'global']
Map = Literal['word_patch', 'fusion']
Weight = Annotated[float, Field(ge=0)]
LEVEL_OF = {'word': 'word_patch', 'patch': 'word_patch', 'sentence': 'sentence_global', 'global': 'sentence_global'}
TERM_OF = {'word_patch': 'word_patch', 'fusion': 'matching'}


class Start(Section):
    """The teacher's blocks, 0 the first, whose weights the student's blocks begin with, in order."""
    image: tuple[Annotated[int, Field(ge=0)], ...] = ()
    text: tuple[Annotated[int, Field(ge=0)], ...] = ()


class Distill(Section):
    """The losses of a student against its teacher, each with its weight, 0 where none is given.

    Crops and captions are drawn by a ``seed`` of their own, so that students of several seeds can share a ``cache``; it
    holds as many ``augmentations`` as there are, which come round epoch after epoch.
    """
    teacher: Optional[str] = Field(default=None, description='a run or checkpoint; tools/distill.py has --teacher')
    cache: Optional[str] = Field(default=None, description="a folder of the teacher's features; none: always anew")
    own: float = Field(default=1.0, ge=0, description="the weight of the student's own loss")
    features: dict[Feature, Weight] = {}
    distance: Literal['mse', 'cosine'] = Field(default='cosine', description='between features')
    similarity: dict[Level, Weight] = {}
    temperature: float = Field(default=1.0, gt=0, description='divides scaled scores before they are compared')
    attention: dict[Map, Weight] = {}
    interactive: float = Field(default=0.0, ge=0, description='contrast of the student with the teacher')
    start: Optional[Start] = Field(default=None, description="begin with weights of the teacher's; none: drawn")
    augmentations: Optional[int] = Field(default=None, ge=1, description='none: another one in every epoch')
    seed: int = Field(default=0, ge=0, lt=2 ** 31)

    @model_validator(mode='after')
    def _something_is_taught(self):
        if not list(self.needs()):
            raise ValueError('similarity: no loss against the teacher has a weight; give one, such as '
                             'distill.similarity: {sentence_global: 1}')
        return self

    def needs(self):
        """The keys that have a weight, each with the term of the loss that teacher and student must both train."""
        for name, weight in self.features.items():
            if weight:
                yield f'features.{name}', LEVEL_OF[name]
        for level, weight in self.similarity.items():
            if weight:
                yield f'similarity.{level}', level
        for name, weight in self.attention.items():
            if weight:
                yield f'attention.{name}', TERM_OF[name]
        if self.interactive:
            yield 'interactive', 'sentence_global'

    def compares(self, part):
        """The first key that has a weight and compares each ``part``, 'word' or 'patch', or None."""
        return next((key for key, _ in self.needs() if key.startswith('attention.') or key == f'features.{part}'), None)

    def check(self, recipe):
        """Raise ``ValueError`` where the student of ``recipe`` lacks what these losses compare."""
        if recipe.vqa is not None:
            raise ValueError('distill: is for alignment, not for questions; leave distill or vqa out')
        terms, train = recipe.loss.terms(recipe.model), recipe.train
        for key, term in self.needs():
            if term not in terms:
                raise ValueError(f'distill.{key}: is about {term}, but the student trains {", ".join(terms)}; leave it '
                                 'out, or train that too')
        for share, part, parts in ((train.drop_patches, 'patch', 'patches'), (train.drop_words, 'word', 'words')):
            key = self.compares(part)
            if share and key is not None:
                raise ValueError(f'distill.{key}: compares all {parts} with those of the teacher, which sees them all; '
                                 f'leave it or train.drop_{parts} out')
        if self.start is not None:
            self._check_start(recipe.model)

    def _check_start(self, model):
        if model.weights is not None:
            raise ValueError('distill.start: the student starts from model.weights already; leave one of the two out')
        for name in ('image', 'text'):
            blocks, depth = getattr(self.start, name), getattr(model, name).depth
            if len(blocks) != depth:
                raise ValueError(f'distill.start.{name}: names {len(blocks)} blocks for a depth of {depth}; name one '
                                 "of the teacher's for each")
