"""The recipe: one typed, frozen description of a run, read from YAML and refused early when it cannot work.

Nothing here imports MindSpore, so that a wrong recipe is reported before anything is loaded.
"""
from typing import Annotated, Literal, Optional

from pydantic import Field, field_validator, model_validator

from hcma.presets import PRESETS
from hcma.recipe_loss import Loss, Term
from hcma.recipe_section import Section

Activation = Literal['relu', 'quick_gelu', 'gelu']
PositiveInt = Field(ge=1)  # reused by every width and count


class ImageTower(Section):
    """The image encoder: pictures of ``size`` x ``size`` pixels to patches and one global feature."""
    size: int = Field(ge=4)
    width: int = PositiveInt
    depth: int = Field(ge=0)
    heads: int = PositiveInt
    mlp_width: int = PositiveInt
    stem: Literal['convolution', 'patchify'] = 'patchify'
    stem_channels: tuple[Annotated[int, PositiveInt], ...] = ()
    patch_size: Optional[int] = Field(default=None, ge=1)
    pool: Literal['class', 'mean'] = 'class'
    activation: Activation = 'quick_gelu'
    directions: bool = Field(default=False, description='a relative-position bias per head, started directional')

    @model_validator(mode='before')
    @classmethod
    def _convolutions_make_the_patch(cls, values):
        """Each stride-2 convolution of the stem halves the side, so the patch size follows from their number."""
        if isinstance(values, dict) and values.get('stem') == 'convolution' and values.get('patch_size') is None:
            channels = values.get('stem_channels')
            return {**values, 'patch_size': 2 ** len(channels) if isinstance(channels, (list, tuple)) else 1}
        return values

    @model_validator(mode='after')
    def _shapes(self):
        if self.stem == 'convolution' and (not self.stem_channels or self.patch_size != 2 ** len(self.stem_channels)):
            raise ValueError('stem_channels: a convolution stem needs one width for each halving of the side '
                             '(patch_size is 2 to the power of their number)')
        if not self.patch_size or self.size % self.patch_size:
            raise ValueError(f'patch_size: {self.patch_size} does not divide the image size {self.size}')
        return _heads_divide_width(self)

    @property
    def grid(self):
        """Patches along one side."""
        return self.size // self.patch_size


class TextTower(Section):
    """The text encoder: ``length`` token ids to words and one sentence feature."""
    length: int = Field(ge=3)
    width: int = PositiveInt
    depth: int = Field(ge=0)
    heads: int = PositiveInt
    mlp_width: int = PositiveInt
    vocab_size: int = Field(ge=260, description='the most tokens a tokenizer trained on the captions may have')
    causal: bool = True
    pool: Literal['end', 'mean'] = 'end'
    word_layer: Optional[int] = Field(default=None, ge=0, description='block whose output the words are; 0 embeddings')
    activation: Activation = 'quick_gelu'
    directions: bool = Field(default=False, description='a relative-position bias per head, started directional')

    @model_validator(mode='after')
    def _shapes(self):
        if self.word_layer is not None and self.word_layer > self.depth:
            raise ValueError(f'word_layer: {self.word_layer} is beyond the depth {self.depth}')
        return _heads_divide_width(self)


def _heads_divide_width(tower):
    if tower.width % tower.heads:
        raise ValueError(f'heads: {tower.heads} does not divide the width {tower.width}')
    return tower


class Fusion(Section):
    """The cross-attention of words to patches that tells matched pairs from hard negatives, at the text's width."""
    depth: int = Field(default=1, ge=1)
    heads: int = Field(default=4, ge=1)


class Model(Section):
    """Both encoders and the widths they share: ``embed_width`` for sentences, ``word_embed_width`` for the rest.

    Phrases are runs of ``phrase_lengths`` words, regions squares of ``region_sizes`` patches a side.
    """
    preset: Literal['tiny', 'small', 'vit_b32', 'vit_b16'] = 'small'
    image: ImageTower
    text: TextTower
    embed_width: int = PositiveInt
    word_embed_width: int = PositiveInt
    phrase_lengths: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(3,), min_length=1)
    region_sizes: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(2, 3), min_length=1)
    fusion: Optional[Fusion] = None

    @model_validator(mode='before')
    @classmethod
    def _preset_below_overrides(cls, values):
        if not isinstance(values, dict):
            return values
        preset = PRESETS.get(str(values.get('preset', 'small')), {})
        merged = {**preset, **values}
        for tower in ('image', 'text'):
            if isinstance(values.get(tower, {}), dict):
                merged[tower] = {**preset.get(tower, {}), **values.get(tower, {})}
        return merged

    @model_validator(mode='after')
    def _fusion_heads_divide(self):
        if self.fusion is not None and self.text.width % self.fusion.heads:
            raise ValueError(f'fusion.heads: {self.fusion.heads} does not divide the text width {self.text.width}')
        return self


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
    initial: float = Field(default=2.0 ** 16, ge=1, le=2.0 ** 100)
    factor: int = Field(default=2, ge=2)
    window: int = Field(default=2000, ge=1)


class Train(Section):
    """The optimisation: AdamW with warm-up and cosine decay."""
    mode: Literal['graph', 'pynative'] = 'graph'
    epochs: int = PositiveInt
    batch_size: int = Field(default=64, ge=2)
    image_micro_batch: Optional[int] = Field(default=None, ge=1, description='pictures encoded at once; none: all')
    text_micro_batch: Optional[int] = Field(default=None, ge=1, description='texts encoded at once; none: all')
    lr: float = Field(default=3e-3, gt=0)
    final_lr: float = Field(default=0.01, ge=0, le=1, description='share of lr left at the last step')
    warmup: float = Field(default=0.1, ge=0, lt=1, description='share of all steps')
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.05, ge=0)
    decay_embeddings: bool = False
    clip_norm: float = Field(default=1.0, gt=0)
    loss_scale: LossScale = LossScale()
    checkpoint_every: int = Field(default=500, ge=1, description='steps; one is written at the end of a run as well')
    keep_checkpoints: int = Field(default=2, ge=1)

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

    @property
    def is_staged(self):
        """Whether a step encodes the batch part by part."""
        return self.image_micro_batch is not None or self.text_micro_batch is not None


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
    evaluate: Evaluate = Evaluate()
    vqa: Optional[VQA] = None

    @model_validator(mode='after')
    def _phrases_and_regions_fit(self):
        model, words = self.model, self.model.text.length - 2
        if 'phrase_region' not in self.loss.levels:
            return self
        if max(model.phrase_lengths) > words:
            raise ValueError(f'model.phrase_lengths: {max(model.phrase_lengths)} is more than the {words} words that '
                             'model.text.length leaves room for')
        if max(model.region_sizes) > model.image.grid:
            raise ValueError(f'model.region_sizes: {max(model.region_sizes)} is more than the {model.image.grid} '
                             'patches along a side of the image')
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
    def _answers_are_not_staged(self):
        if self.vqa is not None and self.train.is_staged:
            raise ValueError('train.image_micro_batch, text_micro_batch: are for alignment, a VQA run has one encoder '
                             'at most; leave them out')
        return self
