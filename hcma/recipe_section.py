"""What every section of the recipe has in common."""
from pydantic import BaseModel, ConfigDict, field_validator


class Section(BaseModel):
    """A part of the recipe: no unknown keys, no silent conversions, no change after reading."""
    model_config = ConfigDict(extra='forbid', frozen=True, strict=True, allow_inf_nan=False)

    @field_validator('*', mode='before')
    @classmethod
    def _lists_are_tuples(cls, value):
        """YAML knows lists only."""
        return tuple(value) if isinstance(value, list) else value
