"""Reads a caption of a generated scene back from its words, and holds it against the scene's geometry."""
import re
from itertools import permutations

COLOURS = 'red green blue yellow purple black'.split()
SHAPES = {'circle': 'circle', 'disc': 'circle', 'square': 'square', 'box': 'square', 'triangle': 'triangle',
          'cross': 'cross', 'plus': 'cross', 'person': 'person', 'figure': 'person', 'frame': 'frame',
          'sofa': 'sofa', 'couch': 'sofa', 'thing': 'thing', 'object': 'thing'}
PLURALS = {'boxes': 'square', 'crosses': 'cross', 'pluses': 'cross', 'people': 'person',
           **{f'{word}s': shape for word, shape in SHAPES.items()}}
SIZES = {'small': 'small', 'little': 'small', 'large': 'large', 'big': 'large'}
TEXTURES = {'striped': 'striped', 'dotted': 'dotted', 'spotted': 'dotted'}
POSES = ('standing', 'sitting', 'lying')
RELATIONS = {'left of': 'left', 'right of': 'right', 'above': 'above', 'over': 'above', 'below': 'below',
             'under': 'below', 'inside': 'inside', 'in': 'inside', 'outside': 'outside', 'on': 'on',
             'beside': 'beside', 'next to': 'beside'}
NUMBERS = {'one': 1, 'two': 2, 'three': 3}

POSE = f"({'|'.join(POSES)})"
NOUN = re.compile(rf"\ba (?:({'|'.join(SIZES)}) )?(?:({'|'.join(TEXTURES)}) )?(?:{POSE} )?({'|'.join(COLOURS)}) "
                  rf"(?:{POSE} )?({'|'.join(SHAPES)})(?: (?:is )?{POSE})?\b")
RELATION = re.compile(rf"\b({'|'.join(RELATIONS)})\b")
COUNT = re.compile(rf"\b({'|'.join(NUMBERS)}) ({'|'.join([*SHAPES, *PLURALS])})\b")


def rests_on(a, b):
    """Whether a stands, sits or lies on b."""
    low = {'sitting': 0.6, 'standing': 1.1, 'lying': 0.9, 'square': 0.9, 'triangle': 0.9}
    bottom = a.y + low.get(a.pose or a.shape, 1) * a.r
    top = b.y + {'square': -0.9, 'sofa': 0.1}.get(b.shape, -99) * b.r
    return abs(bottom - top) < 1 and abs(a.x - b.x) < b.r


def relation_true(name, a, b):
    """Whether a stands in the named relation to b."""
    if name in ('inside', 'outside'):
        inside = abs(a.x - b.x) < b.r and abs(a.y - b.y) < b.r
        return b.shape == 'frame' and inside == (name == 'inside')
    if name == 'on':
        return rests_on(a, b)
    if name == 'beside':
        return not rests_on(a, b) and a.r + b.r < abs(a.x - b.x) < a.r + b.r + 5 and abs(a.y - b.y) < a.r + b.r
    return {'left': a.x < b.x, 'right': a.x > b.x, 'above': a.y < b.y, 'below': a.y > b.y}[name]


def read(caption):
    """(nouns, relation or None, (number, shape) or None) of a caption; a noun is a dict of what it says."""
    nouns = [{'size': SIZES.get(size), 'texture': TEXTURES.get(texture), 'colour': colour, 'shape': SHAPES[shape],
              'pose': before or between or after or None}
             for size, texture, before, colour, between, shape, after in NOUN.findall(caption)]
    relation, count = RELATION.search(caption), COUNT.search(caption)
    assert nouns and caption.count(' and ') + bool(relation) + caption.count(',') > 0
    return (nouns, RELATIONS[relation[1]] if relation else None,
            (NUMBERS[count[1]], {**SHAPES, **PLURALS}[count[2]]) if count else None)


def caption_true(caption, things):
    """Whether the caption is true of the things."""
    nouns, relation, count = read(caption)
    if count and count[0] != sum(count[1] in ('thing', thing.shape) for thing in things):
        return False
    return any(all(value in (None, getattr(thing, key)) for noun, thing in zip(nouns, chosen)
                   for key, value in noun.items())
               and (relation is None or relation_true(relation, chosen[0], chosen[1]))
               for chosen in permutations(things, len(nouns)))
