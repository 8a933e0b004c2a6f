"""The part of the recipe that describes the model: two encoders, what they share, and what of them is trained."""
from typing import Annotated, Literal, Optional, Union

from pydantic import Field, field_validator, model_validator

from hcma.presets import PRESETS
from hcma.recipe_section import Section

Activation = Literal['relu', 'quick_gelu', 'gelu', 'gelu_tanh']
Channels = tuple[float, float, float]
PositiveInt = Field(ge=1)  # reused by every width and count


class Encoder(Section):
    """What both encoders have: how much of one is trained, and which blocks the backward pass computes again."""
    train: Literal['all', 'lora', 'frozen'] = 'all'
    recompute: Union[Literal['off', 'blocks'], int] = Field(default='off', description='n: every n-th block')
    norm_eps: float = Field(default=1e-5, gt=0, description='of every layer norm')

    @field_validator('recompute', mode='before')
    @classmethod
    def _policy(cls, value):
        if value is False:  # what YAML makes of off
            return 'off'
        if value not in ('off', 'blocks') and not (type(value) is int and value >= 1):
            raise ValueError('must be off, blocks, or a number N from 1 up for every N-th block')
        return value


class ImageTower(Encoder):
    """The image encoder: pictures of ``size`` to patches and one global feature."""
    size: Union[int, tuple[int, int]] = Field(description='pixels along each side, or [height, width]')
    width: int = PositiveInt
    depth: int = Field(ge=0)
    heads: int = PositiveInt
    mlp_width: int = PositiveInt
    stem: Literal['convolution', 'patchify'] = 'patchify'
    stem_channels: tuple[Annotated[int, PositiveInt], ...] = ()
    patch_size: Optional[int] = Field(default=None, ge=1)
    patch_bias: bool = Field(default=False, description='of the product that makes a patch')
    pool: Literal['class', 'mean', 'attention'] = 'class'
    activation: Activation = 'quick_gelu'
    directions: bool = Field(default=False, description='a relative-position bias per head, started directional')
    fit: Literal['square', 'shortest', 'squash'] = Field(
        default='square', description='of a whole picture: its central part of the aspect of size, resized; resized '
        'until it covers size, then cut; or resized whatever its aspect')
    mean: Channels = Field(default=(0.48145466, 0.4578275, 0.40821073), description="of the channels, CLIP's")
    deviation: Channels = (0.26862954, 0.26130258, 0.27577711)

    @field_validator('size', mode='before')
    @classmethod
    def _sides(cls, value):
        """A square is kept in one way, as its side."""
        sides = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
        if len(sides) != 2 or not all(type(side) is int and side >= 4 for side in sides):
            raise ValueError('must be the pixels of a side, from 4 up, or [height, width]')
        return sides[0] if sides[0] == sides[1] else sides

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
        if min(self.deviation) <= 0:
            raise ValueError(f'deviation: {list(self.deviation)} must be above 0')
        if self.stem == 'convolution' and (not self.stem_channels or self.patch_size != 2 ** len(self.stem_channels)):
            raise ValueError('stem_channels: a convolution stem needs one width for each halving of the side '
                             '(patch_size is 2 to the power of their number)')
        if not self.patch_size or any(side % self.patch_size for side in self.pixels):
            raise ValueError(f'patch_size: {self.patch_size} does not divide the image size {self.size}')
        return _heads_divide_width(self)

    @property
    def pixels(self):
        """(height, width) of a picture."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    @property
    def grid(self):
        """Patches from top to bottom and from left to right, (rows, columns)."""
        return tuple(side // self.patch_size for side in self.pixels)

    @property
    def patches(self):
        """Patches of a picture."""
        return self.grid[0] * self.grid[1]


class TextTower(Encoder):
    """The text encoder: ``length`` token ids to words and one sentence feature."""
    length: int = Field(ge=3)
    width: int = PositiveInt
    depth: int = Field(ge=0)
    heads: int = PositiveInt
    mlp_width: int = PositiveInt
    vocab_size: int = Field(ge=260, description='the most tokens a tokenizer trained on the captions may have')
    causal: bool = True
    norm: Literal['pre', 'post'] = Field(default='pre', description='a block norms before, or as BERT after, adding')
    pool: Literal['end', 'mean', 'class', 'last'] = Field(default='end', description='class: the begin token')
    word_layer: Optional[int] = Field(default=None, ge=0, description='block whose output the words are; 0 embeddings')
    activation: Activation = 'quick_gelu'
    directions: bool = Field(default=False, description='a relative-position bias per head, started directional')
    begin: bool = Field(default=True, description='captions start with a begin token')
    padding: Optional[int] = Field(default=None, ge=0, description='id of a padding that is read like a token')
    clean: Literal['none', 'clip'] = Field(default='none', description="clip: entities and ligatures as OpenAI's CLIP")
    projection_bias: bool = Field(default=False, description='of the projection of a sentence')

    @model_validator(mode='after')
    def _shapes(self):
        if self.pool == 'last' and self.padding is None:
            raise ValueError('pool: last is the last position, padding or not, so text.padding must be given')
        if self.word_layer is not None and self.word_layer > self.depth:
            raise ValueError(f'word_layer: {self.word_layer} is beyond the depth {self.depth}')
        return _heads_divide_width(self)

    @property
    def framing(self):
        """How a tokenizer must frame captions for this encoder."""
        return {'begin': self.begin, 'padding': self.padding, 'clean': self.clean}


def _heads_divide_width(tower):
    if tower.width % tower.heads:
        raise ValueError(f'heads: {tower.heads} does not divide the width {tower.width}')
    return tower


class Fusion(Section):
    """The cross-attention of words to patches that tells matched pairs from hard negatives, at the text's width."""
    depth: int = Field(default=1, ge=1)
    heads: int = Field(default=4, ge=1)


class LoRA(Section):
    """The low-rank additions (Hu et al., 2022) of encoders whose ``train`` is ``lora``."""
    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16.0, gt=0, description='the additions count alpha / rank times')


class Model(Section):
    """Both encoders and the widths they share: ``embed_width`` for sentences, ``word_embed_width`` for the rest.

    Phrases are runs of ``phrase_lengths`` words, regions squares of ``region_sizes`` patches a side; or phrases are the
    chunks and regions the boxes that come with the data, and what is missing to them runs and squares.
    """
    preset: Literal['tiny', 'small', 'vit_b32', 'vit_b16'] = 'small'
    image: ImageTower
    text: TextTower
    embed_width: int = PositiveInt
    word_embed_width: int = PositiveInt
    phrase_lengths: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(3,), min_length=1)
    region_sizes: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(2, 3), min_length=1)
    phrases: Literal['ngrams', 'chunks'] = Field(default='ngrams', description="chunks: the data's own")
    regions: Literal['windows', 'boxes'] = Field(default='windows', description="boxes: the data's own")
    max_chunks: int = Field(default=16, ge=1, description='phrases of a caption, where they are chunks')
    max_boxes: int = Field(default=16, ge=1, description='regions of a picture, where they are boxes')
    fusion: Optional[Fusion] = None
    lora: LoRA = LoRA()
    weights: Optional[str] = Field(default=None, description='a run or checkpoint whose weights training starts from')

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
