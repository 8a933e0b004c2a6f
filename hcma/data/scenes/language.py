"""Claims in words: plain lower-case English, with synonyms and paraphrases.

A wording is a set of random numbers drawn before the claim is looked at, so that a caption and its negative,
worded alike, differ in nothing but what they claim.
"""
SHAPE_WORDS = {'circle': ('circle', 'disc'), 'square': ('square', 'box'), 'triangle': ('triangle',),
               'cross': ('cross', 'plus'), 'person': ('person', 'figure'), 'frame': ('frame',),
               'sofa': ('sofa', 'couch'), 'thing': ('thing', 'object')}
PLURALS = {'box': 'boxes', 'cross': 'crosses', 'plus': 'pluses', 'person': 'people'}
SIZE_WORDS = {'small': ('small', 'little'), 'large': ('large', 'big')}
TEXTURE_WORDS = {'striped': ('striped',), 'dotted': ('dotted', 'spotted')}
RELATION_WORDS = {'left': ('to the left of', 'left of'), 'right': ('to the right of', 'right of'),
                  'above': ('above', 'over'), 'below': ('below', 'under'),
                  'inside': ('inside', 'in'), 'outside': ('outside',),
                  'on': ('on', 'on top of'), 'beside': ('beside', 'next to')}
NUMBER_WORDS = {1: 'one', 2: 'two', 3: 'three'}


def draw_wording(rng):
    """The random numbers that settle all choices of words for one claim, by what they choose."""
    choices = ('frame', 'relation', 'tail', 'size', 'texture', 'order', *SHAPE_WORDS)
    return {choice: rng.random() for choice in choices}


def say(claim, wording):
    """The claim as a caption."""
    phrases = [noun_phrase(noun, wording) for noun in claim.nouns]
    if claim.relation:
        return _relation_sentence(claim.relation, phrases, wording)
    phrases = [' '.join(filter(None, phrase)) for phrase in phrases]
    if claim.count:
        return _count_sentence(claim.count, phrases, wording)
    return pick(('there is {}', 'a picture of {}', '{}'), wording['frame']).format(_listed(phrases))


def noun_phrase(noun, wording):
    """(phrase, pose): the pose apart where it follows the noun, so that a verb can come between; else ''."""
    words = ['a', noun.size and pick(SIZE_WORDS[noun.size], wording['size']),
             noun.texture and pick(TEXTURE_WORDS[noun.texture], wording['texture']), noun.colour,
             pick(SHAPE_WORDS[noun.shape], wording[noun.shape])]
    pose = noun.pose or ''
    if wording['order'] < 0.5:
        words.insert(3 if wording['order'] < 0.25 else 4, pose)
        pose = ''
    return ' '.join(filter(None, words)), pose


def plural(word):
    """The plural of a shape's name."""
    return PLURALS.get(word, f'{word}s')


def pick(options, draw):
    """The option that a random number from [0, 1) chooses."""
    return options[int(draw * len(options))]


def _relation_sentence(relation, phrases, wording):
    (first, pose), *others = phrases
    second, *third = [' '.join(filter(None, phrase)) for phrase in others]
    words = pick(RELATION_WORDS[relation], wording['relation'])
    sentence = f'{pose} {words} {second}' if pose else f'{words} {second}'
    if wording['frame'] < 1 / 3:
        sentence = f'{first} is {sentence}'
    elif wording['frame'] < 2 / 3 and not third:  # with a third thing it would be too long
        sentence = f'there is {first} {sentence}'
    else:
        sentence = f'{first} {sentence}'
    return sentence + (pick((', with {}', ', and also {}'), wording['tail']).format(third[0]) if third else '')


def _count_sentence(count, phrases, wording):
    number, shape = count
    noun = pick(SHAPE_WORDS[shape], wording[shape])
    counted = f'{NUMBER_WORDS[number]} {noun if number == 1 else plural(noun)}'
    if shape == 'thing':
        counted = f'{counted}, including {_listed(phrases)}'
    else:
        counted = _listed([counted, *phrases])
    verb = 'is' if number == 1 else 'are'
    return pick((f'there {verb} {{}}', 'a picture of {}', '{}'), wording['frame']).format(counted)


def _listed(phrases):
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"
