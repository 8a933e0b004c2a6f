"""Captions as the text tower reads them: ids, lengths and, where phrases are the data's own chunks, their spans."""
import os

import numpy as np


class Captions:
    """Captions to columns as a recipe's ``model`` section says, by a ``CaptionTokenizer``.

    ``captions(texts, chunks)`` takes N texts and for each its chunks, [start, end] in characters, or None for none.
    It gives ids (N, L) int32, lengths (N,) int32 and, where phrases are chunks, their spans (N, Q, 2) int32 in tokens,
    the end excluded; those left over are [0, 0]. A text without chunks has the spans of its runs of words, taken evenly
    out of all if they are too many.
    """

    def __init__(self, model, tokenizer):
        self.tokenizer, self.wanted = tokenizer, model.phrases == 'chunks'
        self.most = model.max_chunks
        self.runs = [_runs(len(tokenizer.begin), length, model.phrase_lengths, self.most)
                     for length in range(tokenizer.length + 1)]

    def __call__(self, texts, chunks=None):
        ids, lengths = self.tokenizer.encode(texts)
        if not self.wanted:
            return ids, lengths
        spans = np.zeros((len(texts), self.most, 2), np.int32)
        for row, text in enumerate(texts):
            own = self.tokenizer.token_spans(text, chunks[row]) if chunks and chunks[row] else []
            found = own[:self.most] or self.runs[lengths[row]]
            spans[row, :len(found)] = found or 0
        return ids, lengths, spans

    def one(self, text, chunks=()):
        """The columns of one text, without the first axis."""
        return tuple(column[0] for column in self([text], [chunks]))


def _runs(begin, length, sizes, most):
    """The spans of neighbouring words in a text of ``length`` tokens, ``begin`` of them before the words, one after."""
    runs = [[first, first + size] for size in sizes for first in range(begin, length - size)]
    if len(runs) <= most:
        return runs
    return [runs[place] for place in np.linspace(0, len(runs) - 1, most).round().astype(int)]


def moved(chunks, text, changed):
    """The chunks of ``text`` in ``changed``, which differs from it in one stretch of characters."""
    before = len(os.path.commonprefix([text, changed]))
    after = min(len(os.path.commonprefix([text[::-1], changed[::-1]])), len(text) - before, len(changed) - before)

    def place(at, inside):
        if at <= before:
            return at
        return at + len(changed) - len(text) if at >= len(text) - after else inside
    return tuple((place(start, before), place(end, len(changed) - after)) for start, end in chunks)
