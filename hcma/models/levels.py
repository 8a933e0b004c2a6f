"""Which features the towers give for which levels, and the scores that compare them."""
from mindspore import nn

from hcma.models.attention import Attention, AttentionPairs
from hcma.models.scores import LateInteraction, LateInteractionPairs, SentenceGlobal, SentenceGlobalPairs

# The local levels compare many parts of a text, some of them excluded by a mask, with many parts of an image.
LOCAL = {'word_patch': ('word', 'word_mask', 'patch'), 'phrase_region': ('phrase', 'phrase_mask', 'region')}
SCORES = {'max': (LateInteraction, LateInteractionPairs), 'attention': (Attention, AttentionPairs),
          'in_pair': (Attention, AttentionPairs)}  # in_pair only trains otherwise


def text_features(levels, fusion=False):
    """The names of the text tower's outputs, in order; ``*_state`` are the encoder's own, for a fusion."""
    names = ('sentence',)
    for level in levels:
        names += LOCAL.get(level, ())[:2]
    if fusion:
        names += ('word_state', 'sentence_state')
    return names + (('word_mask',) if fusion and 'word_mask' not in names else ())


def image_features(levels, fusion=False):
    """The names of the image tower's outputs, in order."""
    names = ('global',)
    for level in levels:
        names += LOCAL.get(level, ())[2:]
    return names + (('patch_state', 'global_state') if fusion else ())


class LevelScores(nn.Cell):
    """Features of texts and images to one cosine score per level: a tuple of (B_text, B_image), or (B,) ``pairs``.

    ``kind`` is how local levels score: 'max', 'attention' or 'in_pair'.
    """

    def __init__(self, levels, pairs=False, kind='max'):
        super().__init__()
        self.kind = kind
        text, image = text_features(levels), image_features(levels)
        # For every level the places of its features; None for sentence-global, whose features come first.
        self.places = tuple(None if level not in LOCAL else
                            tuple((text if name in text else image).index(name) for name in LOCAL[level])
                            for level in levels)
        self.sentence_global = (SentenceGlobalPairs if pairs else SentenceGlobal)()
        self.local = SCORES[kind][pairs]()

    def construct(self, text, image):
        scores = ()
        for number in range(len(self.places)):
            scores = scores + (self.level(number, text, image),)
        return scores

    def level(self, number, text, image):
        """The score of one level."""
        place = self.places[number]
        if place is None:
            return self.sentence_global(text[0], None, image[0])
        return self.local(text[place[0]], text[place[1]], image[place[2]])
