"""Captions to token ids of one fixed length: a byte-level BPE trained on the captions, or a given tokenizer.json."""
import itertools
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from hcma.data.clean import clean
from hcma.data.words import OWN_CUTS, OWN_NORMALIZER, WordIds
from hcma.errors import InputError

PAD, BEGIN, END = '<|pad|>', '<|begin|>', '<|end|>'
# Names that well-known tokenizers give to their begin and end tokens.
BEGIN_NAMES = (BEGIN, '<|startoftext|>', '[CLS]', '<s>', '<bos>')
END_NAMES = (END, '<|endoftext|>', '[SEP]', '</s>', '<eos>')


class CaptionTokenizer:
    """Encodes captions as begin, tokens, end, padded to ``length``; what is too long loses tokens before the end.

    Without ``begin`` the tokens come first. ``padding`` is the id of the padding where the model reads it, and
    ``clean`` 'clip' where captions are cleaned as OpenAI's CLIP does.
    """

    def __init__(self, tokenizer, length, where='tokenizer', begin=True, padding=None, clean='none'):
        self.tokenizer = tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.length = length
        self.begin = [_special_id(tokenizer, BEGIN_NAMES, where)] if begin else []
        self.end = _special_id(tokenizer, END_NAMES, where)
        self.padding, self.cleans = padding or 0, clean == 'clip'
        self.room = length - 1 - len(self.begin)

    @property
    def vocab_size(self):
        """One more than the largest id."""
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, captions):
        """A list of N captions to ids (N, length) int32, padding after the end token, and their lengths (N,) int32."""
        ids = np.full((len(captions), self.length), self.padding, np.int32)
        rows = [[*self.begin, *tokens[:self.room], self.end] for tokens in self._tokens(captions)]
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        ids[np.arange(self.length) < lengths[:, None]] = list(itertools.chain.from_iterable(rows))
        return ids, lengths

    def encode_one(self, caption):
        """One caption to ids (length,) int32 and its length, int32."""
        ids, lengths = self.encode([caption])
        return ids[0], lengths[0]

    def token_spans(self, caption, chunks):
        """Where the tokens of each of the ``chunks`` [start, end], in characters, stand among the ids of ``encode``.

        A list of [first, end]; a chunk of which a token was cut off is left out. A token counts to every chunk that has
        one of its characters.
        """
        if len(self._cleaned(caption)) != len(caption):  # cleaning moved the characters
            return []
        offsets = self.tokenizer.encode(self._cleaned(caption), add_special_tokens=False).offsets
        spans, before = [], len(self.begin)
        for start, end in chunks:
            inside = [place for place, (low, high) in enumerate(offsets, start=before) if low < end and high > start]
            if inside and inside[-1] < before + self.room:
                spans.append([inside[0], inside[-1] + 1])
        return spans

    def characters(self, caption):
        """{place among the ids of ``encode``: characters [start, end) of its token}; none if cleaning moved them."""
        if len(self._cleaned(caption)) != len(caption):
            return {}
        offsets = self.tokenizer.encode(self._cleaned(caption), add_special_tokens=False).offsets[:self.room]
        return dict(enumerate(offsets, start=len(self.begin)))

    def count_truncated(self, captions):
        """How many of ``captions`` lose tokens."""
        return sum(len(tokens) > self.room for tokens in self._tokens(captions))

    @cached_property
    def word_ids(self):
        """Made with the first caption, when the tokenizer has all of its special tokens."""
        return WordIds(self.tokenizer)

    def _tokens(self, captions):
        return self.word_ids([self._cleaned(caption) for caption in captions])

    def _cleaned(self, caption):
        return clean(caption) if self.cleans else caption

    def pieces(self, caption):
        """The text piece of each token between begin and end, in order, for drawing: they join to the caption."""
        caption = self._cleaned(caption)
        encoding = self.tokenizer.encode(caption, add_special_tokens=False)
        # Cut at the ends only: the tokens that share one character all have its offsets, and the first takes it.
        ends = [0, *itertools.accumulate((end for _, end in encoding.offsets), max)]
        ends[-1] = len(caption)  # what normalising merged into the last character
        return [caption[start:end] for start, end in itertools.pairwise(ends[:self.room + 1])]

    def to_json(self):
        """The tokenizer as the text of a tokenizer.json."""
        return self.tokenizer.to_str(pretty=True)


def train_tokenizer(captions, vocab_size, length, **framing):
    """A byte-level BPE of at most ``vocab_size`` tokens; lower case, so that a word has one form, NFC for Chinese."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.pre_tokenizer = OWN_NORMALIZER, OWN_CUTS
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[PAD, BEGIN, END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(captions, trainer)
    return CaptionTokenizer(tokenizer, length, **framing)


def load_tokenizer(path, length, **framing):
    """Read a tokenizer.json, with ``framing`` as of ``CaptionTokenizer``.

    Raises ``InputError`` when it is none, or has no begin and end tokens.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f'{path}: no such tokenizer; give the path of a tokenizer.json')
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception for every fault of the file
        raise InputError(f'{path}: not a tokenizer.json ({error})') from None
    return CaptionTokenizer(tokenizer, length, str(path), **framing)


def _special_id(tokenizer, names, where):
    for name in names:
        token_id = tokenizer.token_to_id(name)
        if token_id is not None:
            return token_id
    raise InputError(f'{where}: has none of the tokens {", ".join(names)}; add one to the tokenizer')
