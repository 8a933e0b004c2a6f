"""Where the things of a scene stand: places drawn at random until nothing overlaps by accident."""
from hcma.data.scenes.relations import floor, foot, surface
from hcma.data.scenes.world import draw_cast

TRIES = 20  # of a thing's place before the whole layout is given up
LAYOUTS = 12  # of a cast before it is given up: too few, and large things and threes would become rare


def draw_things(rng, split, kind):
    """The placed things of a random scene of the split; a later thing is painted over an earlier one."""
    while True:
        cast = draw_cast(rng, split, kind)
        for _ in range(LAYOUTS):
            things = place(cast, rng)
            if things:
                return things


def place(cast, rng):
    """The cast's things with their places, or None where they found none."""
    placed = []
    for thing in cast.things:
        relation = cast.relation if len(placed) == 1 else None
        for _ in range(TRIES):
            candidate = _candidate(thing, placed, relation, rng)
            touching = placed[1:] if relation in ('inside', 'on', 'beside') else placed
            if inside_picture(candidate) and not any(overlap(candidate, other) for other in touching):
                placed.append(candidate)
                break
        else:
            return None
    return placed


def inside_picture(thing):
    """Whether the thing keeps off the picture's border."""
    reach = thing.r * (1.2 if thing.shape == 'person' else 1) + 1
    return reach <= thing.x <= 64 - reach and reach <= thing.y <= 64 - reach


def overlap(a, b):
    """Whether two things come too near each other for their relation to be seen at a glance."""
    return max(abs(a.x - b.x), abs(a.y - b.y)) < 1.15 * (a.r + b.r) + 1


def _candidate(thing, placed, relation, rng):
    if relation == 'inside':
        return _inside(thing, placed[0], rng)
    if relation == 'on':
        x = placed[0].x + rng.uniform(-0.3, 0.3) * placed[0].r
        return thing._replace(x=x, y=surface(placed[0]) - foot(thing))
    if relation == 'beside':
        distance = 1.1 * thing.r + placed[0].r + rng.uniform(1, 3)
        x = placed[0].x + rng.choice((-1, 1)) * distance
        return thing._replace(x=x, y=floor(placed[0]) - floor(thing))
    low, high = thing.r + 2, 62 - thing.r
    return thing._replace(x=rng.uniform(low, high), y=rng.uniform(low, high))


def _inside(thing, frame, rng):
    slack = frame.r - 3 - 1.2 * thing.r
    return thing._replace(x=frame.x + rng.uniform(-slack, slack) / 2, y=frame.y + rng.uniform(-slack, slack) / 2)
