"""One generated scene with all that is said about it; each is seeded by itself, by seed, split and number."""
import random
from dataclasses import dataclass, replace

from PIL import Image

from hcma.data.scenes.claims import draw_claim, draw_count
from hcma.data.scenes.drawing import draw_background, render
from hcma.data.scenes.language import draw_wording, say
from hcma.data.scenes.layout import draw_things
from hcma.data.scenes.negatives import draw_negatives, negatives_of
from hcma.data.scenes.questions import draw_questions
from hcma.data.scenes.twins import draw_twins
from hcma.data.scenes.world import draw_kind

TRIES = 20  # of a caption that is not yet there


@dataclass(frozen=True)
class Options:
    """What the scenes of a set have in common: see write_scenes.

    Few are textured and few captions count: colours, shapes, sizes and poses are to be learnt from a few thousand.
    """

    captions: int = 4
    seed: int = 0
    relations: float = 0.0
    twins: bool = False
    negatives: bool = False
    textured: float = 0.09
    counts: float = 0.1

    @property
    def heavy(self):
        """The share of relation-heavy scenes: with twins and no share given, all."""
        return self.relations or (1.0 if self.twins else 0.0)


@dataclass(frozen=True)
class Sample:
    """A picture (RGB, 48 x 48), its things, captions, choices (type, caption, negative caption; none in train) and
    questions (type, question, answer); ``said`` are the captions as claims with their wordings. Twins bear the same
    number, and each has a ``contrast``: a caption worded like the other's that is true of its own picture only.

    With ``negatives``, training scenes have false captions besides.
    """

    image: Image.Image
    things: list
    said: list
    choices: list
    questions: list
    twin: int | None = None
    contrast: str | None = None
    negatives: dict | None = None

    @property
    def captions(self):
        """The true captions."""
        return [say(*one) for one in self.said]

    def alone(self):
        """The sample as one without a twin."""
        return replace(self, twin=None, contrast=None)


def make_samples(split, number, options):
    """The samples of the unit of that number: two with ``twins`` (twins or not), else one."""
    heavy = int((number + 1) * options.heavy) > int(number * options.heavy)  # spread evenly
    samples = _unit(split, number, options, heavy)
    if not options.negatives or split != 'train':
        return samples
    rng = _rng(options, split, number, 'negatives')  # its own, so that the scenes are the same without negatives
    return [replace(sample, negatives=negatives_of(sample.said, sample.things, rng, heavy)) for sample in samples]


def _unit(split, number, options, heavy):
    if not options.twins:
        return [_single(_rng(options, split, number), split, options, heavy)]
    if heavy:
        return _twins(_rng(options, split, number), split, options, number)
    return [_single(_rng(options, split, number, half), split, options, False) for half in (0, 1)]


def _rng(options, split, *number):
    return random.Random(f'{options.seed} {split} {number}')


def _single(rng, split, options, related):
    while True:
        things = draw_things(rng, split, draw_kind(rng, options.textured))
        if not related or draw_claim(things, rng, related=True):
            break
    image = render(things, draw_background(rng), rng)
    said = _said(lambda: _claim(things, rng, related, options.counts), options.captions, rng)
    return Sample(image, things, said, _choices(things, rng, split, related), draw_questions(things, rng))


def _twins(rng, split, options, number):
    background = draw_background(rng)
    wording = draw_wording(_rng(options, split, number, 'contrast'))
    samples = []
    for things, claims in draw_twins(rng, split, options.captions):
        image = render(things, background, rng)
        said = [(claim, draw_wording(rng)) for claim in claims]
        samples.append(Sample(image, things, said, _choices(things, rng, split, related=True),
                              draw_questions(things, rng), number, say(claims[0], wording)))
    return samples


def _choices(things, rng, split, related):
    return [] if split == 'train' else draw_negatives(things, rng, related)


def _claim(things, rng, related, counts):
    if not related and rng.random() < counts:
        return draw_count(things, rng)
    return draw_claim(things, rng, related)


def _said(draw, number, rng):
    """So many claims with wordings, different captions as far as chance allows."""
    said, captions = [], []
    while len(said) < number:
        for _ in range(TRIES):
            claim, wording = draw(), draw_wording(rng)
            if say(claim, wording) not in captions:
                break
        said.append((claim, wording))
        captions.append(say(claim, wording))
    return said
