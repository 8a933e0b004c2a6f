"""Which words of one tokenizer are which of another: those that share characters of the caption."""
import functools

import numpy as np

from hcma.errors import InputError

CACHED_BYTES = 64 << 20
EXAMPLES = 256  # captions that are tried before a training


class Alignment:
    """``alignment(caption)`` gives how much of each token of ``own`` is in each token of ``other``, (L, L') float32.

    Both are ``CaptionTokenizer``s, the places those of their ids. A row sums to 1 over the tokens that have a character
    of its token, spaces aside; it is zero for begin, end and padding, and for what the other tokenizer cut off.
    """

    def __init__(self, own, other):
        self.own, self.other = own, other
        size = max(1, CACHED_BYTES // (4 * own.length * other.length))
        self.cached = functools.lru_cache(size)(self._alignment)

    def __call__(self, caption):
        return self.cached(caption)

    def _alignment(self, caption):
        shared = _characters(self.own, caption) @ _characters(self.other, caption).T
        return shared / np.maximum(shared.sum(1, keepdims=True), 1)

    def require_some(self, captions, own, other):
        """Raise ``InputError`` unless words of ``captions`` align; ``own`` and ``other`` say whose tokenizers are."""
        if not any(self(caption).any() for caption in captions[:EXAMPLES]):
            raise InputError(f'{other}: none of its words covers the same characters of a caption as one of {own}, so '
                             'words cannot be compared; leave distill.features.word and distill.attention out, or give '
                             "the student the teacher's tokenizer (data.tokenizer)")


def _characters(tokenizer, caption):
    """1 for each character of a caption that the token at a place has, spaces aside, (L, characters) float32."""
    places = np.zeros((tokenizer.length, len(caption)), np.float32)
    for place, (start, end) in tokenizer.characters(caption).items():
        places[place, start:end] = 1
    places[:, [character.isspace() for character in caption]] = 0
    return places
