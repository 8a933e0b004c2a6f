"""Which relations hold between two placed things, by geometry alone.

``clear`` is strict, for what a caption may say; ``holds`` is generous, for what a negative must not say.
"""
OPPOSITE = {'left': 'right', 'right': 'left', 'above': 'below', 'below': 'above',
            'inside': 'outside', 'outside': 'inside', 'on': 'beside', 'beside': 'on'}
DIRECTIONS = ('left', 'right', 'above', 'below')

# Heights below the centre, in units of r, of a thing's lowest line, of the line it rests on when it is on
# something (a sitting figure's legs hang down), and of the line on which others rest.
FLOOR = {'circle': 1.0, 'square': 0.9, 'triangle': 0.9, 'cross': 1.0, 'frame': 1.0, 'sofa': 0.6,
         'standing': 1.1, 'sitting': 1.1, 'lying': 0.9}
FOOT = {**FLOOR, 'sitting': 0.6}
SURFACE = {'square': -0.9, 'sofa': 0.1}


def floor(thing):
    """The y of the thing's lowest line."""
    return thing.y + FLOOR[thing.pose or thing.shape] * thing.r


def foot(thing):
    """The y of the line with which the thing rests on another."""
    return thing.y + FOOT[thing.pose or thing.shape] * thing.r


def surface(thing):
    """The y of the line on which others rest; only for a support."""
    return thing.y + SURFACE[thing.shape] * thing.r


def clear(a, b):
    """All relations of a to b that nobody would doubt."""
    found = [name for name in ('inside', 'outside', 'on', 'beside') if holds(name, a, b)]
    dx, dy = a.x - b.x, a.y - b.y
    if max(abs(dx), abs(dy)) < 0.85 * (a.r + b.r):  # one covers the other
        return found
    if abs(dx) > 1.3 * abs(dy):
        found.append('left' if dx < 0 else 'right')
    elif abs(dy) > 1.3 * abs(dx):
        found.append('above' if dy < 0 else 'below')
    return found


def holds(name, a, b):
    """Whether a stands in the named relation to b, or might be said to."""
    return TESTS[name](a, b)


def _inside(a, b):
    return b.shape == 'frame' and max(abs(a.x - b.x), abs(a.y - b.y)) < b.r


def _outside(a, b):
    return b.shape == 'frame' and not _inside(a, b)


def _on(a, b):
    return (b.shape in SURFACE and a.shape != 'sofa' and a.shape != 'frame'
            and abs(a.x - b.x) < 0.9 * b.r and abs(foot(a) - surface(b)) < 1.5)


def _beside(a, b):
    gap = abs(a.x - b.x) - a.r - b.r
    return b.shape in SURFACE and 0 < gap < 5 and abs(floor(a) - floor(b)) < 1.5


TESTS = {'left': lambda a, b: a.x < b.x, 'right': lambda a, b: a.x > b.x,
         'above': lambda a, b: a.y < b.y, 'below': lambda a, b: a.y > b.y,
         'inside': _inside, 'outside': _outside, 'on': _on, 'beside': _beside}
