"""How much each level counts in the score of a pair: from the recipe, or fitted on validation data."""
import itertools

import numpy as np

STEPS = 10


def weightings(levels, weights):
    """{level: one-hot} of every level where there are several, and 'weighted': all by ``weights`` (1 if not named)."""
    single = {level: row for level, row in zip(levels, np.eye(len(levels)))} if len(levels) > 1 else {}
    return {**single, 'weighted': np.array([weights.get(level, 1.0) for level in levels])}


def grid(levels):
    """All weightings in steps of a tenth that sum to 1, {number: (levels,)}: the candidates of a fit."""
    parts = itertools.product(range(STEPS + 1), repeat=len(levels))
    return {number: np.array(part) / STEPS for number, part in enumerate(p for p in parts if sum(p) == STEPS)}


def best(candidates, quality):
    """The weighting of the highest ``quality(name)``; of equals the one nearest to even weights."""
    def rank(name):
        return quality(name), -float(np.var(candidates[name]))
    return candidates[max(candidates, key=rank)]
