"""The ids of a caption's words are the ids of the caption, whatever its spaces, scripts and special tokens."""
import random

import pytest

from hcma.data.tokenizer import train_tokenizer
from hcma.data.words import WordIds
from hcma.interop.tokenizers import bert_tokenizer, clip_tokenizer

CAPTIONS = ["A cat's toy, isn't it? 12 dogs", 'the red cube', '一只猫坐在沙发上。', '红色 the 方块 in 蓝色', 'cat cat cat']
PARTS = ['a', 'b', "'s", ' ', ' ', '  ', '\t', '\n', '.', '1', 'é', '\u0301', '\u3000', '\xa0', '马', '狗。', 'ß', 'İ',
         'ﬁ', '👩‍🚀', '\x85', '\u180e', '[CLS]', '<|startoftext|>', '<|unused 1|>', 'cat', 'the ']


def captions():
    draw = random.Random(0)
    return CAPTIONS + [''] + [''.join(draw.choices(PARTS, k=draw.randrange(12))) for _ in range(3000)]


def own():
    tokenizer = train_tokenizer(CAPTIONS, 320, 32).tokenizer
    tokenizer.add_special_tokens(['<|unused 1|>'])
    return tokenizer


def clip():
    symbols = [chr(code) for code in range(33, 700)]
    merges = [('c', 'a'), ('ca', 't</w>'), ('t', 'h'), ('th', 'e</w>')]
    tokens = [*symbols, *(symbol + '</w>' for symbol in symbols), *map(''.join, merges), '<|startoftext|>',
              '<|endoftext|>']
    tokenizer = clip_tokenizer({token: number for number, token in enumerate(tokens)}, merges)
    tokenizer.add_special_tokens(['<|unused 1|>'])
    return tokenizer


def bert(lower):
    characters = sorted(set(''.join(CAPTIONS + PARTS)) - set(' \t\n'))
    tokens = ['[UNK]', '[CLS]', '[SEP]', 'cat', 'the', *characters, *('##' + one for one in characters)]
    return bert_tokenizer(tokens, lower)


TOKENIZERS = {'own': own, 'clip': clip, 'bert': lambda: bert(True), 'bert, cased': lambda: bert(False)}


@pytest.mark.parametrize('name', TOKENIZERS)
def test_the_ids_of_the_words_are_those_of_the_caption(name):
    tokenizer, given = TOKENIZERS[name](), captions()
    expected = [tokenizer.encode(caption, add_special_tokens=False).ids for caption in given]
    word_ids = WordIds(tokenizer)
    assert word_ids(given) == expected
    assert word_ids(given) == expected, 'also when all words are known'
    assert [word_ids([caption])[0] for caption in given] == expected


@pytest.mark.parametrize('name', TOKENIZERS)
def test_a_word_is_encoded_once(name):
    word_ids = WordIds(TOKENIZERS[name]())
    first = word_ids(['the cat the'])
    word_ids.tokenizer = None
    assert word_ids(['the cat the']) == first


def test_what_a_tokenizer_does_over_spaces_is_kept():
    tokenizer = own()
    tokenizer.pre_tokenizer = None  # so that tokens may hold spaces
    tokenizer.add_tokens(['red cube'])
    assert WordIds(tokenizer)(CAPTIONS) == [tokenizer.encode(caption).ids for caption in CAPTIONS]


def test_words_beyond_the_most_that_are_kept_have_their_ids_too(monkeypatch):
    monkeypatch.setattr('hcma.data.words.KNOWN', 3)
    tokenizer, given = clip(), captions()
    word_ids = WordIds(tokenizer)
    assert word_ids(given) == [tokenizer.encode(caption, add_special_tokens=False).ids for caption in given]
    assert len(word_ids.known) <= 3
