"""The sections of the recipe that say which type each part computes in, and what happens when training goes wrong."""
from typing import Literal, Optional

from pydantic import Field

from hcma.recipe_section import Section

Type = Literal['fp32', 'fp16', 'bf16', 'auto']
Action = Literal['ignore', 'warn', 'lower_lr', 'rollback', 'stop']


class Precision(Section):
    """The type of each part's matrix products and convolutions; ``auto`` is the best that the device does.

    ``loss`` is what compares or joins both sides: cosines of all pairs, a fusion, the head of a VQA run. Weights and
    optimizer state are fp32, and so are norms, softmax and its scores, temperatures and losses, whatever stands here.
    """
    image: Type = 'fp32'
    text: Type = 'fp32'
    loss: Type = 'fp32'
    keep_fp32: tuple[str, ...] = Field(default=(), description='names of layers, with * and ?, that stay in fp32')
    lr_scale: float = Field(default=1.0, gt=0, description='times train.lr where image or text compute in 16 bits')

    def types(self):
        """The type of each part, {'image': ..., 'text': ..., 'loss': ...}."""
        return {part: getattr(self, part) for part in ('image', 'text', 'loss')}


class Stability(Section):
    """What is watched during training, and what each trouble leads to.

    A spike is a value that lies more than so many robust standard deviations above the median of the last ``window``
    steps. ``lower_lr`` multiplies the learning rate by ``lr_factor`` for ``lr_steps`` steps; ``rollback`` takes the
    weights of the last good checkpoint and goes on with data that was not seen yet, at most ``rollbacks`` times.
    """
    loss_spike: Action = 'warn'
    gradient_spike: Action = 'warn'
    nonfinite: Literal['warn', 'rollback', 'stop'] = Field(default='stop', description='NaN or Inf in the weights')
    temperature: Action = Field(default='warn', description='a learned temperature at its clamp')
    window: int = Field(default=50, ge=8, description='steps')
    loss_deviations: float = Field(default=8.0, gt=0)
    gradient_deviations: float = Field(default=20.0, gt=0)
    look_every: int = Field(default=10, ge=1, description="steps between looks at the steps' metrics")
    check_every: int = Field(default=100, ge=1, description='steps between checks of all weights')
    lr_factor: float = Field(default=0.3, gt=0, lt=1)
    lr_steps: int = Field(default=200, ge=1)
    rollbacks: int = Field(default=3, ge=1)
    low_scale: Optional[float] = Field(default=None, gt=1, description='a loss scale below this is a trouble')
    low_scale_lr: float = Field(default=1.0, gt=0, le=1, description='times the learning rate while it is so low')
