"""Twins: two nearly equal pictures, a relation mirrored, and captions that only one of them bears out."""
from hcma.data.scenes.claims import draw_claim, true
from hcma.data.scenes.layout import draw_things, inside_picture, overlap
from hcma.data.scenes.relations import DIRECTIONS, OPPOSITE

KINDS = ('plain', 'plain', 'plain', 'textured')  # those whose things can change places freely
TRIES = 40  # of a claim before another pair of scenes is drawn


def draw_twins(rng, split, captions):
    """(things, claims), (twin's things, claims): each claim true of its own scene and false of the other."""
    while True:
        things = draw_things(rng, split, rng.choice(KINDS))
        twin = mirrored(things, rng)
        pairs = [_claim_pair(things, twin, rng) for _ in range(captions)]
        if all(pairs):
            own, other = zip(*pairs)
            return (things, list(own)), (twin, list(other))


def mirrored(things, rng):
    """Two things with their places exchanged where there is room, or all places turned by half a turn."""
    swapped = list(things)
    i, j = rng.sample(range(len(things)), 2)
    swapped[i] = things[i]._replace(x=things[j].x, y=things[j].y)
    swapped[j] = things[j]._replace(x=things[i].x, y=things[i].y)
    if rng.random() < 0.5 and _fits(swapped):
        return swapped
    return [thing._replace(x=64 - thing.x, y=64 - thing.y) for thing in things]


def _fits(things):
    apart = not any(overlap(a, b) for k, a in enumerate(things) for b in things[:k])
    return apart and all(inside_picture(thing) for thing in things)


def _claim_pair(things, twin, rng):
    """A claim about the scene and its opposite, about the twin; None where none was found."""
    for _ in range(TRIES):
        claim = draw_claim(things, rng, related=True)
        if not claim or claim.relation not in DIRECTIONS:
            continue
        opposite = claim._replace(relation=OPPOSITE[claim.relation])
        if true(opposite, twin) and not true(claim, twin) and not true(opposite, things):
            first, second, *rest = opposite.nouns
            turned = claim._replace(nouns=(second, first, *rest))  # the opposite, told from the other end
            return claim, opposite if rng.random() < 0.5 else turned
    return None
