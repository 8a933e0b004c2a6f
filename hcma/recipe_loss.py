"""The section of the recipe that says what is trained."""
from typing import Literal

from pydantic import Field, field_validator, model_validator

from hcma.recipe_section import Section

Level = Literal['sentence_global', 'word_patch', 'phrase_region']
Term = Literal['sentence_global', 'word_patch', 'phrase_region', 'matching']


class Temperature(Section):
    """The start of every level's temperature, how low it may sink, and whether it learns."""
    initial: float = Field(default=0.07, le=1.0)
    minimum: float = Field(default=0.01, gt=0, le=1.0)
    learnable: bool = True

    @model_validator(mode='after')
    def _starts_above(self):
        if self.initial < self.minimum:
            raise ValueError(f'initial: {self.initial} is below the minimum {self.minimum}')
        return self


class Loss(Section):
    """The levels that are trained, how they score, and the weights of the terms (1 where none is given)."""
    levels: tuple[Level, ...] = ('sentence_global', 'word_patch')
    score: Literal['max', 'attention', 'in_pair'] = 'max'
    contrast: Literal['softmax', 'sigmoid'] = 'softmax'
    label_smoothing: float = Field(default=0.0, ge=0, lt=1, description='share of a softmax target spread evenly')
    weights: dict[Term, float] = {}
    balance: Literal['fixed', 'uncertainty'] = Field(default='fixed', description='uncertainty: weights are learned')
    temperature: Temperature = Temperature()

    @field_validator('levels', mode='after')
    @classmethod
    def _some_and_once(cls, value):
        if not value or len(set(value)) != len(value):
            raise ValueError('needs at least one level, each once')
        return value

    @model_validator(mode='after')
    def _smooths_softmax_only(self):
        if self.contrast == 'sigmoid' and self.label_smoothing:
            raise ValueError('label_smoothing: is for a softmax; leave it out where contrast is sigmoid')
        return self

    def terms(self, model):
        """What is summed: the levels, and the matching of a fusion where ``model`` (the section) has one."""
        return self.levels + (() if model.fusion is None else ('matching',))

    def weight(self, term):
        """The weight of ``term`` in the sum."""
        return self.weights.get(term, 1.0)
