"""Floating-point numbers that a step holds besides parameters, counted from the recipe.

Two ways of holding: ``kept`` counts what the backward pass needs, as a device holds it that reuses the rest;
``computed`` counts the results of all operations, as MindSpore holds them on CPU, which reuses little inside a graph.
Per sample in the encoders, for a whole batch in the loss.
"""
import math
from dataclasses import astuple, dataclass

from hcma.models.heads import fit_fused_attention

# Results of an activation that are there at once, and how many of them its backward pass reads beside its input.
# MindSpore composes the gradients of GELUs of many operations, which on CPU hold as much as nine more results.
ACTIVATION = {'relu': (1, 0), 'gelu': (10, 1), 'gelu_tanh': (10, 1), 'quick_gelu': (2, 1)}


@dataclass(frozen=True)
class Held:
    """Numbers in the compute type, those that are always float32, and the results of all operations.

    ``unfused`` are weights of attention that fused attention, in a 16-bit type, does not hold: part of neither before.
    """
    kept: float = 0
    kept_float32: float = 0
    computed: float = 0
    unfused: float = 0

    def __add__(self, other):
        return Held(*(one + another for one, another in zip(astuple(self), astuple(other))))

    def times(self, factor):
        """This, ``factor`` times."""
        return Held(*(factor * number for number in astuple(self)))


def block(tower, positions, rank=0):
    """What one block holds of one sample; ``rank`` is that of its low-rank additions."""
    rows, square = positions * tower.width, tower.heads * positions ** 2
    hidden = positions * tower.mlp_width
    results, read = ACTIVATION[tower.activation]
    # Norm, query, key and value (product, bias, turned, split), scaled query, context, its transpose, out
    # (product, bias), sum; norm, down (product, bias), sum: of 24 results a third fits best what was measured.
    computed = 8 * rows + (2 + results) * hidden + (2 + _biased(tower)) * square
    # What the second product of each of four layers reads. On CPU it was measured that the rest of an addition is not
    # there at the peak.
    added = 4 * positions * rank
    # Norms read their inputs in float32. The scores' softmax is float32 too.
    fused = fit_fused_attention(tower.width // tower.heads, tower.directions)
    weights = Held(unfused=square) if fused else Held(square, square)
    return Held(6 * rows + (1 + read) * hidden + added, 2 * rows, computed) + weights


def _biased(tower):
    """Results of adding biases to the scores: a mask of texts, directions."""
    return int(not hasattr(tower, 'grid')) + tower.directions


def positions(tower):
    """Rows of a sample inside an encoder."""
    if hasattr(tower, 'grid'):
        return tower.patches + (tower.pool == 'class')
    return tower.length


def seen(recipe, tower):
    """Rows of a sample that pass the blocks in training: dropped patches do not."""
    dropped = tower.patches - recipe.kept_patches if hasattr(tower, 'grid') else 0
    return positions(tower) - dropped


def ends(tower):
    """What an encoder holds of one sample outside its blocks: pixels and stem, or embeddings; and the last norm."""
    rows = positions(tower) * tower.width
    if not hasattr(tower, 'grid'):
        return Held(2 * rows, rows, 6 * rows)
    pixels = 3 * math.prod(tower.pixels)  # kept in the type that the first product reads
    if tower.stem == 'patchify':
        return Held(pixels + 2 * rows, 2 * rows, 4 * pixels + 6 * rows)
    total, before = Held(pixels + 2 * rows, rows, 3 * pixels + 3 * rows), tower.pixels
    channels = (3, *tower.stem_channels, tower.width)
    for inputs, outputs, after in zip(channels, channels[1:], [*stem_pixels(tower), tower.grid]):
        seen, made = 9 * inputs * math.prod(after), outputs * math.prod(after)
        total += Held(made, 0, inputs * math.prod(before) + seen + 3 * made)
        before = after
    return total


def stem_pixels(image):
    """The (height, width) of what each halving convolution of a stem makes."""
    return [tuple(side >> layer for side in image.pixels) for layer in range(1, len(image.stem_channels) + 1)]


def encoder(recipe, tower):
    """(what is held of a sample where nothing is recomputed, what recomputing frees, the same of one block)."""
    inside = seen(recipe, tower)
    one = block(tower, inside, recipe.model.lora.rank if tower.train == 'lora' else 0)
    whole = one.times(tower.depth) + ends(tower)
    if tower.recompute == 'off':
        return whole, Held(), one
    every = 1 if tower.recompute == 'blocks' else tower.recompute
    again = -(-tower.depth // every)
    # A recomputed block keeps its input, and one of them at a time is whole.
    kept_float32 = one.kept_float32 - inside * tower.width
    return whole, Held(one.kept, kept_float32, unfused=one.unfused).times(max(again - 1, 0)), one
