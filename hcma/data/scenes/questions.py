"""Questions about a scene, with their answers."""
from hcma.data.scenes.language import RELATION_WORDS, SHAPE_WORDS, plural
from hcma.data.scenes.relations import OPPOSITE, clear, holds
from hcma.data.scenes.world import COLOURS, SHAPES

TYPES = ('colour', 'shape', 'count', 'relation', 'exist', 'pose')


def draw_questions(things, rng):
    """Rows (type, question, answer), at most one of each type: those that have one sure answer here."""
    asked = ((kind, ASK[kind](things, rng)) for kind in TYPES)
    return [(kind, *row) for kind, row in asked if row]


def _colour(things, rng):
    unique = _unique(things, 'shape')
    if not unique:
        return None
    thing = rng.choice(unique)
    return f'what colour is the {_name(thing.shape, rng)}?', thing.colour


def _shape(things, rng):
    unique = _unique(things, 'colour')
    if not unique:
        return None
    thing = rng.choice(unique)
    text = rng.choice(('what shape is the {} thing?', 'what is the {} thing?'))
    return text.format(thing.colour), thing.shape


def _count(things, rng):
    shapes = [thing.shape for thing in things]
    text = rng.choice(('how many {} are there?', 'how many {} can you see?'))
    if rng.random() < 0.5:
        return text.format(plural(_name('thing', rng))), str(len(things))
    shape = rng.choice(shapes if rng.random() < 0.7 else SHAPES)
    return text.format(plural(_name(shape, rng))), str(shapes.count(shape))


def _relation(things, rng):
    first, second = rng.sample(things, 2)
    relations = clear(first, second)
    if not relations:
        return None
    relation = rng.choice(relations)
    answer = rng.choice(('yes', 'no'))
    if answer == 'no':
        relation = OPPOSITE[relation]
        if holds(relation, first, second):
            return None
    phrase = rng.choice(RELATION_WORDS[relation])
    return f'is the {_full_name(first, rng)} {phrase} the {_full_name(second, rng)}?', answer


def _exist(things, rng):
    thing = rng.choice(things)
    shape, colour, answer = thing.shape, thing.colour, rng.choice(('yes', 'no'))
    if answer == 'no':
        # Half the time a colour that is there, on the wrong thing.
        colours = [other.colour for other in things] if rng.random() < 0.5 else COLOURS
        present = {other.colour for other in things if other.shape == shape}
        absent = [colour for colour in colours if colour not in present]
        if not absent:
            return None
        colour = rng.choice(absent)
    text = rng.choice(('is there a {} {}?', 'can you see a {} {}?'))
    return text.format(colour, _name(shape, rng)), answer


def _pose(things, rng):
    people = [thing for thing in things if thing.pose]
    if not people:
        return None
    person = rng.choice(people)
    name = _name('person', rng) if len(people) == 1 else _full_name(person, rng)
    return f'what is the {name} doing?', person.pose


ASK = {'colour': _colour, 'shape': _shape, 'count': _count, 'relation': _relation, 'exist': _exist, 'pose': _pose}


def _unique(things, key):
    values = [getattr(thing, key) for thing in things]
    return [thing for thing, value in zip(things, values) if values.count(value) == 1]


def _name(shape, rng):
    return rng.choice(SHAPE_WORDS[shape])


def _full_name(thing, rng):
    return f'{thing.colour} {_name(thing.shape, rng)}'
