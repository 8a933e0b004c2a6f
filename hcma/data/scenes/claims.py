"""What a caption claims about a scene, apart from its wording, and whether the claim is true."""
from itertools import permutations
from typing import NamedTuple

from hcma.data.scenes.relations import clear, holds
from hcma.data.scenes.world import POSES_ON, SHAPES, SUPPORTS, TEXTURED_SHAPES

RELATION_SHARE = 0.75  # of the captions that do not count, where a relation is clear


class Noun(NamedTuple):
    """What is said about one thing; None where nothing is said."""

    shape: str
    colour: str
    size: str | None = None
    texture: str | None = None
    pose: str | None = None


class Claim(NamedTuple):
    """Different things that match the nouns exist, the first standing in the relation to the second.

    ``count`` is (number, shape): there are exactly so many of that shape ('thing': in all), and if a shape,
    they come besides the nouns.
    """

    nouns: tuple
    relation: str | None = None
    count: tuple | None = None


def true(claim, things):
    """Whether the claim is, or might be taken as, true of the things."""
    return _count_true(claim.count, things) and any(
        all(_matches(noun, thing) for noun, thing in zip(claim.nouns, chosen))
        and (claim.relation is None or holds(claim.relation, chosen[0], chosen[1]))
        for chosen in permutations(things, len(claim.nouns)))


def plausible(claim):
    """Whether some scene of this world could make the claim true: a text alone must not betray a negative."""
    if len({(noun.colour, noun.shape) for noun in claim.nouns}) < len(claim.nouns):
        return False
    if not all(noun.texture is None or noun.shape in TEXTURED_SHAPES for noun in claim.nouns):
        return False
    return claim.relation is None or _plausible_relation(claim.relation, *claim.nouns[:2])


def draw_claim(things, rng, related=False):
    """A random true claim; with ``related`` one that states a relation, or None where no relation is clear."""
    chosen = rng.sample(things, len(things) if rng.random() < 0.5 else 2)
    relations = []
    if related or rng.random() < RELATION_SHARE:
        chosen, relations = _related(chosen, things, rng, search=related)
    if related and not relations:
        return None
    nouns = [_describe(thing, rng) for thing in chosen[:2]]
    nouns += [Noun(thing.shape, thing.colour) if relations else _describe(thing, rng) for thing in chosen[2:]]
    return Claim(tuple(nouns), rng.choice(relations) if relations else None)


def draw_count(things, rng):
    """A random true claim that states a number: of all things, or of the things of one shape."""
    counted = [thing.shape for thing in things if thing.shape in SHAPES]
    shapes = [shape for shape in sorted(set(counted)) if counted.count(shape) < len(things)]
    if shapes and rng.random() < 0.5:
        shape = max(shapes, key=counted.count)
        others = [thing for thing in things if thing.shape != shape]
        nouns, count = rng.sample(others, 1), (counted.count(shape), shape)
    else:
        nouns, count = rng.sample(things, 2), (len(things), 'thing')
    return Claim(tuple(_describe(thing, rng) for thing in nouns), count=count)


def _related(chosen, things, rng, search):
    """The chosen things, turned or (with ``search``) replaced so that the first two have clear relations."""
    orders = [chosen, [chosen[1], chosen[0], *chosen[2:]]]
    if search:
        every = list(permutations(things))
        orders += rng.sample(every, len(every))
    for order in orders:
        relations = clear(order[0], order[1])
        if relations:
            return list(order[:len(chosen)]), relations
    return chosen, []


def _describe(thing, rng):
    """A noun for the thing; of a patterned one it may name the pattern, of others the size."""
    size = thing.size if rng.random() < 0.4 else None
    pose = thing.pose if rng.random() < 0.8 else None
    if thing.texture != 'plain':
        return Noun(thing.shape, thing.colour, texture=thing.texture if rng.random() < 0.8 else None)
    # Frames and sofas come in one size only.
    return Noun(thing.shape, thing.colour, size if thing.shape in SHAPES else None, pose=pose)


def _matches(noun, thing):
    return (noun.shape == thing.shape and noun.colour == thing.colour and noun.size in (None, thing.size)
            and noun.texture in (None, thing.texture) and noun.pose in (None, thing.pose))


def _count_true(count, things):
    if count is None:
        return True
    number, shape = count
    return number == (len(things) if shape == 'thing' else sum(thing.shape == shape for thing in things))


def _plausible_relation(relation, first, second):
    if relation in ('inside', 'outside'):
        return second.shape == 'frame' and not (relation == 'inside' and first.size == 'large')
    if relation == 'on':
        poses = POSES_ON.get(second.shape, ())
        return second.shape in SUPPORTS and first.colour != second.colour and first.pose in (None, *poses)
    return relation != 'beside' or second.shape in SUPPORTS
