"""What a scene is made of: two or three things with colour, shape, size, texture, pose and place.

Lengths are in 64ths of the picture's side, x to the right and y down.
"""
import hashlib
from typing import NamedTuple

COLOURS = ('red', 'green', 'blue', 'yellow', 'purple', 'black')
SHAPES = ('circle', 'square', 'triangle', 'cross', 'person')
TEXTURED_SHAPES = ('circle', 'square', 'triangle')  # the others are too thin to show a pattern at 48 pixels
SUPPORTS = ('sofa', 'square')  # what something can be on
SIZES = ('small', 'large')
TEXTURES = ('plain', 'striped', 'dotted')
POSES = ('standing', 'sitting', 'lying')
POSES_ON = {'sofa': ('sitting', 'lying'), 'square': ('standing', 'sitting')}

# Of the scenes; plain and textured ones share what is left.
FRAMED, SUPPORTED, MOST_TEXTURED = 0.08, 0.12, 0.8


class Thing(NamedTuple):
    """One thing: its looks, its centre (x, y) and the half of its extent r. Only a person has a pose."""

    shape: str
    colour: str
    size: str = 'large'
    texture: str = 'plain'
    pose: str | None = None
    x: float = 0.0
    y: float = 0.0
    r: float = 0.0


class Cast(NamedTuple):
    """Things that have no place yet, and how the second is to stand to the first (None: anyhow)."""

    things: list
    relation: str | None = None


def combination(things):
    """The scene's set of (colour, shape) pairs."""
    return frozenset((thing.colour, thing.shape) for thing in things)


def split_of(pairs):
    """The one split ('train', 'val' or 'test'; about 80, 10, 10%) in which these (colour, shape) pairs may meet."""
    key = ','.join(sorted(f'{colour} {shape}' for colour, shape in pairs))
    bucket = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), 'big') % 10
    return {8: 'val', 9: 'test'}.get(bucket, 'train')


def draw_cast(rng, split, kind):
    """A cast of the given kind whose combination belongs to the split.

    Its first thing is drawn once, whatever the split: each thing is to be about as common in every split.
    """
    draw_first, draw_company = CASTS[kind]
    first = draw_first(rng)
    while True:
        cast = draw_company(first, rng)
        pairs = combination(cast.things)
        if len(pairs) == len(cast.things) and split_of(pairs) == split:
            return cast


def draw_kind(rng, textured):
    """One of CASTS, of which the share ``textured`` is that."""
    shares = {'plain': MOST_TEXTURED - textured, 'textured': textured, 'framed': FRAMED, 'supported': SUPPORTED}
    return rng.choices(list(shares), list(shares.values()))[0]


def _thing(rng, shape=None, size=None):
    shape = shape or rng.choice(SHAPES)
    size = size or rng.choice(SIZES)
    r = rng.uniform(6, 7.5) if size == 'small' else rng.uniform(10.5, 13)
    pose = None
    if shape == 'person':
        pose = rng.choice(POSES)
        r = max(r, 8)  # below that, poses cannot be told apart at 48 pixels
    return Thing(shape, rng.choice(COLOURS), size, pose=pose, r=r)


def _patterned_thing(rng):
    """A thing striped or dotted, and large enough for that to show."""
    return _thing(rng, rng.choice(TEXTURED_SHAPES), 'large')._replace(texture=rng.choice(TEXTURES[1:]))


def _frame(rng):
    return Thing('frame', rng.choice(COLOURS), r=rng.uniform(14, 16.5))


def _support(rng):
    """A sofa or a box."""
    return Thing('sofa', rng.choice(COLOURS), r=rng.uniform(14, 16)) if rng.random() < 0.6 else _thing(rng, 'square')


def _with_others(first, rng):
    return Cast([first] + [_thing(rng) for _ in range(_number(rng) - 1)])


def _with_others_patterned(first, rng):
    return Cast([first] + [_patterned_thing(rng) if rng.random() < 0.3 else _thing(rng)
                           for _ in range(_number(rng) - 1)])


def _around(frame, rng):
    """A thing inside or outside the frame, and sometimes one more thing outside."""
    relation = rng.choice(('inside', 'outside'))
    guest = _thing(rng, size='small') if relation == 'inside' else _thing(rng)
    return Cast([frame, guest] + _third(rng), relation)


def _at(support, rng):
    """A thing on or beside the support, and sometimes one more thing."""
    relation = rng.choice(('on', 'beside'))
    rider = _thing(rng, 'person' if rng.random() < 0.6 else None)
    if relation == 'on':
        # Of one colour, the two would melt into one.
        rider = rider._replace(colour=rng.choice([colour for colour in COLOURS if colour != support.colour]))
        if rider.pose:
            rider = rider._replace(pose=rng.choice(POSES_ON[support.shape]))
    return Cast([support, rider] + _third(rng), relation)


CASTS = {'plain': (_thing, _with_others), 'textured': (_patterned_thing, _with_others_patterned),
         'framed': (_frame, _around), 'supported': (_support, _at)}


def _number(rng):
    return rng.choice((2, 2, 2, 3, 3))


def _third(rng):
    return [_thing(rng)] if _number(rng) == 3 else []
