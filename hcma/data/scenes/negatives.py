"""Hard negatives: one thing in a true claim changed so that it becomes false, the wording kept."""
from hcma.data.scenes.claims import draw_claim, draw_count, plausible, true
from hcma.data.scenes.language import draw_wording, say
from hcma.data.scenes.relations import OPPOSITE
from hcma.data.scenes.world import COLOURS, POSES, SHAPES, SIZES, TEXTURES

TRIES = 4  # of an edit that involves chance


def draw_negatives(things, rng, related=False):
    """Choices (type, caption, negative caption) for one scene, at most one of each type."""
    claim = draw_claim(things, rng, related) or draw_claim(things, rng)
    choices = _choices(claim, EDITS, things, rng)
    count = draw_count(things, rng)
    if rng.random() < _count_rate(count.count):
        choices += _choices(count, {'count': change_count}, things, rng)
    return choices


def negatives_of(said, things, rng, related=False):
    """False captions worded like the true ones ``said`` (claim, wording): {caption: at most one of each type}.

    With ``related`` they are false in their relation alone, as is all that tells twins apart.
    """
    return {say(claim, wording): _false(claim, wording, things, rng, related) for claim, wording in said}


def _false(claim, wording, things, rng, related):
    if claim.count:
        edits = {'count': change_count} if rng.random() < _count_rate(claim.count) else {}
    else:
        edits = RELATION_EDITS if related else EDITS
    changed = [_changed(claim, edit, things, rng) for edit in edits.values()]
    return list(dict.fromkeys(say(one, wording) for one in changed if one))


def swap_attribute(claim, rng):
    """Two things' colours exchanged."""
    first, second = rng.sample(range(len(claim.nouns)), 2)
    a, b = claim.nouns[first], claim.nouns[second]
    if a.colour == b.colour or a.shape == b.shape:
        return None
    return _edited(_edited(claim, first, colour=b.colour), second, colour=a.colour)


def replace_colour(claim, rng):
    """Another colour for one thing."""
    return _replace(claim, rng, 'colour', COLOURS)


def replace_object(claim, rng):
    """Another shape for one thing that has no pose; frames and sofas are too few to take part."""
    # A figure is seldom spoken of without its pose, so it must be as seldom in negatives.
    options = SHAPES if rng.random() < 0.25 else [shape for shape in SHAPES if shape != 'person']
    return _replace(claim, rng, 'shape', options, lambda noun: noun.pose is None and noun.shape in SHAPES)


def replace_size(claim, rng):
    """The other size for one thing whose size is said."""
    return _replace(claim, rng, 'size', SIZES, lambda noun: noun.size)


def replace_pose(claim, rng):
    """Another pose for one figure whose pose is said."""
    return _replace(claim, rng, 'pose', POSES, lambda noun: noun.pose)


def replace_texture(claim, rng):
    """Another texture for one thing whose texture is said."""
    return _replace(claim, rng, 'texture', TEXTURES[1:], lambda noun: noun.texture)


def flip_relation(claim, rng):
    """The opposite relation."""
    return claim._replace(relation=OPPOSITE[claim.relation]) if claim.relation else None


def swap_objects(claim, rng):
    """The two things of the relation exchanged."""
    if not claim.relation:
        return None
    first, second, *rest = claim.nouns
    return claim._replace(nouns=(second, first, *rest))


def change_count(claim, rng):
    """Another number: 2 or 3 things in all, 1 or 2 of one shape, as they are in this world."""
    number, shape = claim.count
    return claim._replace(count=((5 if shape == 'thing' else 3) - number, shape))


EDITS = {'swap_attribute': swap_attribute, 'replace_colour': replace_colour, 'replace_object': replace_object,
         'replace_size': replace_size, 'replace_pose': replace_pose, 'replace_texture': replace_texture,
         'flip_relation': flip_relation, 'swap_objects': swap_objects}
RELATION_EDITS = {kind: EDITS[kind] for kind in ('flip_relation', 'swap_objects')}
TYPES = (*EDITS, 'count')


def _count_rate(count):
    """How often a count becomes a choice: the commoner number less often, so that guessing it gains nothing."""
    number, shape = count
    if shape == 'thing':
        return 0.5 if number == 2 else 1
    return 0.19 if number == 1 else 1


def _choices(claim, edits, things, rng):
    wording = draw_wording(rng)
    found = []
    for kind, edit in edits.items():
        changed = _changed(claim, edit, things, rng)
        if changed:
            found.append((kind, say(claim, wording), say(changed, wording)))
    return found


def _changed(claim, edit, things, rng):
    """The claim edited so that it is false of the things, or None where a few tries found nothing plausible."""
    for _ in range(TRIES):
        changed = edit(claim, rng)
        if changed and plausible(changed) and not true(changed, things):
            return changed
    return None


def _replace(claim, rng, key, options, fits=lambda noun: True):
    index = rng.randrange(len(claim.nouns))
    if not fits(claim.nouns[index]):
        return None
    old = getattr(claim.nouns[index], key)
    return _edited(claim, index, **{key: rng.choice([option for option in options if option != old])})


def _edited(claim, index, **change):
    nouns = list(claim.nouns)
    nouns[index] = nouns[index]._replace(**change)
    return claim._replace(nouns=tuple(nouns))
