"""The recipe: one typed, frozen description of a run, read from YAML and refused early when it cannot work.

Nothing here imports MindSpore, so that a wrong recipe is reported before anything is loaded.
"""
from typing import Literal, Optional

from pydantic import Field, field_validator, model_validator

from hcma.errors import InputError
from hcma.recipe_distill import Distill
from hcma.recipe_loss import Loss, Term
from hcma.recipe_model import Model, PositiveInt
from hcma.recipe_section import Section
from hcma.recipe_stability import Precision, Stability


class Data(Section):
    """Where packed pairs are, and how a picture is cut for training."""
    train: Optional[str] = None
    tokenizer: Optional[str] = None
    crop_area: tuple[float, float] = (0.6, 1.0)
    crop_aspect: tuple[float, float] = (0.8, 1.25)
    flip: bool = False
    negatives: Literal['none', 'data', 'perturb'] = Field(
        default='none', description="false captions: the row's own, or a caption with one word replaced")
    twins: bool = Field(default=False, description='rows that share a twin come in one batch, next to each other')
    workers: int = Field(default=1, ge=1)
    prefetch: int = Field(default=4, ge=1)

    @field_validator('crop_area', 'crop_aspect', mode='after')
    @classmethod
    def _range(cls, value):
        low, high = value
        if not 0 < low <= high:
            raise ValueError('must be two numbers, 0 < low <= high')
        return value

    @field_validator('crop_area', mode='after')
    @classmethod
    def _area(cls, value):
        if value[1] > 1:
            raise ValueError('is a share of the picture, so at most 1')
        return value


def _check_weights(key, weights, terms):
    for term, weight in weights.items():
        if term not in terms:
            needs = ', which needs model.fusion' if term == 'matching' else ''
            raise ValueError(f'{key}: {term} is not among the levels {", ".join(terms)}{needs}')
        if weight < 0:
            raise ValueError(f'{key}: {term} is {weight}, a weight is a number from 0 up')


class LossScale(Section):
    """Dynamic loss scale: doubled after ``window`` steps without overflow, halved at each overflow."""
    initial: float = Field(default=2.0 ** 16, ge=1, le=2.0 ** 40)
    factor: int = Field(default=2, ge=2)
    window: int = Field(default=2000, ge=1)


class BatchWarmup(Section):
    """Smaller batches at first: of ``batch_size`` for so many ``epochs``."""
    batch_size: int = Field(ge=2)
    epochs: int = Field(default=1, ge=1)


class Train(Section):
    """The optimisation: AdamW with warm-up and cosine decay.

    A ``plan`` that is auto looks for the micro-batches that encode fastest within ``memory_budget``.
    """
    mode: Literal['graph', 'pynative'] = 'graph'
    epochs: int = PositiveInt
    batch_size: int = Field(default=64, ge=2)
    image_micro_batch: Optional[int] = Field(default=None, ge=1, description='pictures encoded at once; none: all')
    text_micro_batch: Optional[int] = Field(default=None, ge=1, description='texts encoded at once; none: all')
    plan: Literal['fixed', 'auto'] = Field(default='fixed', description='auto: micro-batches are measured and enlarged')
    memory_budget: Optional[float] = Field(default=None, gt=0, description='GiB that the plan may use; none: no bound')
    batch_warmup: Optional[BatchWarmup] = None
    lr: float = Field(default=3e-3, gt=0)
    final_lr: float = Field(default=0.01, ge=0, le=1, description='share of lr left at the last step')
    warmup: float = Field(default=0.1, ge=0, lt=1, description='share of all steps')
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.05, ge=0)
    decay_embeddings: bool = False
    compile_cache: bool = Field(default=False, description='keep the compiled step on disk for the next run')
    shard_optimizer: bool = Field(default=False, description='of many ranks each keeps the moments of its own weights')
    layer_decay: float = Field(default=1.0, gt=0, le=1, description='of lr for every block further from the output')
    clip_norm: float = Field(default=1.0, gt=0)
    loss_scale: LossScale = LossScale()
    checkpoint_every: int = Field(default=500, ge=1, description='steps; one is written at the end of a run as well')
    keep_checkpoints: int = Field(default=2, ge=1)
    drop_patches: float = Field(default=0.0, ge=0, lt=1, description='share of patches the encoder does not see')
    drop_words: float = Field(default=0.0, ge=0, lt=1, description='share of words left out of captions')

    @field_validator('betas', mode='after')
    @classmethod
    def _betas(cls, value):
        if not all(0 <= beta < 1 for beta in value):
            raise ValueError('must be two numbers from 0 to below 1')
        return value

    @model_validator(mode='after')
    def _micro_batches_are_parts(self):
        for key in ('image_micro_batch', 'text_micro_batch'):
            size = getattr(self, key)
            if size is not None and size > self.batch_size:
                raise ValueError(f'{key}: {size} is more than the batch_size {self.batch_size}; give a part of it')
        return self

    @model_validator(mode='after')
    def _budget_is_for_a_search(self):
        if self.memory_budget is not None and self.plan == 'fixed':
            raise ValueError('memory_budget: is what plan auto may use; add plan: auto, or set the micro-batches')
        return self

    @model_validator(mode='after')
    def _only_what_is_planned_is_kept(self):
        if self.compile_cache and self.plan == 'auto':
            raise ValueError('compile_cache: what plan auto compiles differs from run to run; take plan: fixed')
        return self

    @model_validator(mode='after')
    def _small_batches_come_first(self):
        warmup = self.batch_warmup
        if warmup is not None and warmup.batch_size >= self.batch_size:
            raise ValueError(f'batch_warmup.batch_size: {warmup.batch_size} is not less than the batch_size '
                             f'{self.batch_size}')
        return self

    @property
    def is_staged(self):
        """Whether a step encodes the batch part by part."""
        return self.plan == 'auto' or self.image_micro_batch is not None or self.text_micro_batch is not None

    def batch_size_of(self, epoch):
        """The batch size of an epoch, the first being 0."""
        warmup = self.batch_warmup
        return warmup.batch_size if warmup is not None and epoch < warmup.epochs else self.batch_size

    def require_shares(self, ranks):
        """Raise ``InputError`` where a batch cannot be cut into equal parts for so many ``ranks``."""
        for key, size in (('batch_size', self.batch_size), ('batch_warmup.batch_size', self.batch_size_of(0))):
            if size % ranks:
                raise InputError(f'train.{key}: {size} cannot be shared by {ranks} ranks; take a multiple')


class Evaluate(Section):
    """How features of several levels become one score of a pair; with a fusion it re-ranks the best ``rerank``."""
    weights: dict[Term, float] = {}
    rerank: int = Field(default=16, ge=1)
    batch_size: int = Field(default=64, ge=1)


class VQA(Section):
    """Answering questions: a head on the encoders of an alignment run, which also gives ``model`` and ``loss``."""
    checkpoint: str = Field(description='an alignment run, or one of its checkpoints')
    head: Literal['word_patch', 'global', 'question'] = 'word_patch'
    width: int = Field(default=256, ge=1, description='of the hidden layer; other heads get as many parameters')
    answers: int = Field(default=1000, ge=2, description='the most answers the vocabulary may have')
    frozen: tuple[Literal['image', 'text'], ...] = Field(default=('image',), description='true is both, false none')
    split: Optional[str] = Field(default=None, description='train on the rows whose "split" is this')

    @field_validator('frozen', mode='before')
    @classmethod
    def _both_or_none(cls, value):
        if isinstance(value, bool):
            return ('image', 'text') if value else ()
        return value


class Recipe(Section):
    """A whole run."""
    name: str = 'run'
    device: Literal['CPU', 'Ascend'] = 'CPU'
    seed: int = Field(default=0, ge=0, lt=2 ** 31)
    data: Data = Data()
    model: Model = Field(default_factory=lambda: Model.model_validate({}))
    loss: Loss = Loss()
    train: Train
    precision: Precision = Precision()
    stability: Stability = Stability()
    evaluate: Evaluate = Evaluate()
    vqa: Optional[VQA] = None
    distill: Optional[Distill] = None

    @model_validator(mode='after')
    def _phrases_and_regions_fit(self):
        model, words = self.model, self.model.text.length - 2
        if 'phrase_region' not in self.loss.levels:
            return self
        if max(model.phrase_lengths) > words:
            raise ValueError(f'model.phrase_lengths: {max(model.phrase_lengths)} is more than the {words} words that '
                             'model.text.length leaves room for')
        if max(model.region_sizes) > min(model.image.grid):
            raise ValueError(f'model.region_sizes: {max(model.region_sizes)} is more than the {min(model.image.grid)} '
                             'patches along a side of the image')
        return self

    @model_validator(mode='after')
    def _chunks_and_boxes_are_compared(self):
        for key, own in (('phrases', 'chunks'), ('regions', 'boxes')):
            if getattr(self.model, key) == own and 'phrase_region' not in self.loss.levels:
                raise ValueError(f'model.{key}: {own} are for the level phrase_region; add it to loss.levels, or leave '
                                 'them out')
        return self

    @model_validator(mode='after')
    def _weighted_terms_are_trained(self):
        terms = self.loss.terms(self.model)
        if self.loss.weights and self.loss.balance == 'uncertainty':
            raise ValueError('loss.weights: they are learned where loss.balance is uncertainty; give one or the other')
        _check_weights('loss.weights', self.loss.weights, terms)
        _check_weights('evaluate.weights', self.evaluate.weights, terms)
        return self

    @model_validator(mode='after')
    def _words_can_be_left_out(self):
        if self.train.drop_words and (self.model.text.padding is not None or not self.model.text.begin):
            raise ValueError('train.drop_words: this model reads its padding, or has no begin token, so words cannot '
                             'be left out; leave it at 0')
        return self

    @model_validator(mode='after')
    def _regions_need_whole_pictures(self):
        if self.train.drop_patches and 'phrase_region' in self.loss.levels:
            raise ValueError('train.drop_patches: regions are neighbouring patches, so phrase_region needs all of '
                             'them; leave one of the two out')
        return self

    @model_validator(mode='after')
    def _answers_need_whole_pairs_at_once(self):
        train = self.train
        if self.vqa is not None and (train.is_staged or train.drop_patches or train.drop_words or train.batch_warmup):
            raise ValueError('train.image_micro_batch, text_micro_batch, plan, drop_patches, drop_words, batch_warmup: '
                             'are for alignment, not for questions; leave them out')
        return self

    @model_validator(mode='after')
    def _student_has_what_it_learns(self):
        if self.distill is not None:
            self.distill.check(self)
        return self

    @property
    def sample_seed(self):
        """What draws the crops and captions, and whatever else is drawn with a sample."""
        return self.seed if self.distill is None else self.distill.seed

    def augmentation(self, epoch):
        """The number of the draw of all samples that an epoch sees."""
        known = None if self.distill is None else self.distill.augmentations
        return epoch if known is None else epoch % known

    @property
    def image_columns(self):
        """The columns of a training batch that the image tower reads."""
        if self.model.regions == 'boxes':
            return 'image', 'boxes'
        return ('image', 'kept') if self.train.drop_patches else ('image',)

    @property
    def kept_patches(self):
        """How many patches of a picture the encoder sees in training: at least one."""
        return max(1, round(self.model.image.patches * (1 - self.train.drop_patches)))

    @property
    def text_columns(self):
        """The columns of a training batch that the text tower reads."""
        return ('ids', 'length') + (('spans',) if self.model.phrases == 'chunks' else ())

    @property
    def columns(self):
        """All columns of a training batch, in order: those of the towers, groups, and those of wrong texts."""
        wrong = () if self.data.negatives == 'none' else tuple(f'negative_{name}' for name in self.text_columns)
        return *self.image_columns, *self.text_columns, 'group', *wrong
