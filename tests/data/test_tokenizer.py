"""Captions become ids of one length that end in the end token, whatever the language, the length and the neighbours."""
import json
import subprocess
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from hcma.data.tokenizer import BEGIN, END, PAD, load_tokenizer, train_tokenizer
from hcma.errors import InputError

CAPTIONS = ['A cat sits on the sofa.', 'The red cube is left of the blue ball', '一只猫坐在沙发上。', '红色的方块在蓝色的球左边',
            'two dogs run', '两只狗在跑'] * 3
STRANGE = {'emoji': '👩‍🚀 rides 🐎!', 'tabs': 'a\tcat\r\n on  a sofa ', 'unseen letters': 'naïve Ελλάδα עברית',
           'no letters': '?!', 'digits': '1234567890', 'accents in two parts': 'e\u0301te\u0301', 'expands': 'İﬁ'}
LONG = 'word ' * 1000


@pytest.fixture(scope='module')
def tokenizer():
    return train_tokenizer(CAPTIONS, 320, 32)


@pytest.fixture
def file(tokenizer, tmp_path):
    path = tmp_path / 'tokenizer.json'
    path.write_text(tokenizer.to_json(), encoding='utf-8')
    return path


def decoded(tokenizer, ids, length):
    return tokenizer.tokenizer.decode(ids[1:length - 1].tolist())


def test_every_caption_is_begin_tokens_end_and_zeros_in_a_row_of_one_length(tokenizer):
    captions = [*CAPTIONS, *STRANGE.values(), '', LONG]
    ids, lengths = tokenizer.encode(captions)
    assert (ids.shape, ids.dtype, lengths.dtype) == ((len(captions), 32), np.int32, np.int32)
    assert (ids[:, 0] == tokenizer.begin).all()
    assert (ids[np.arange(len(ids)), lengths - 1] == tokenizer.end).all()
    assert ((ids == tokenizer.end).sum(1) == 1).all()
    assert (ids[np.arange(32) >= lengths[:, None]] == 0).all()
    assert ids.max() < tokenizer.vocab_size <= 320


@pytest.mark.parametrize('caption', [*CAPTIONS[:6], *STRANGE.values()])
def test_tokens_decode_to_the_caption_in_lower_case(caption, tokenizer):
    tokenizer = load_json(tokenizer, 99)
    ids, lengths = tokenizer.encode([caption])
    assert decoded(tokenizer, ids[0], lengths[0]) == tokenizer.tokenizer.normalizer.normalize_str(caption)


def test_every_chinese_character_is_a_token_of_its_own(tokenizer):
    assert tokenizer.pieces('两只狗 run 在跑。')[:3] == ['两', '只', '狗']
    pieces = [piece for caption in CAPTIONS for piece in tokenizer.pieces(caption)]
    assert all(piece.isascii() or len(piece) == 1 for piece in pieces)


def test_a_first_word_is_the_token_of_a_later_one(tokenizer):
    first, later = (tokenizer.encode_one(caption)[0] for caption in ('dogs run', 'two dogs run'))
    assert first[1] in later


def load_json(tokenizer, length):
    """The same tokenizer with another length."""
    return type(tokenizer)(Tokenizer.from_str(tokenizer.to_json()), length)


def test_an_empty_caption_is_begin_and_end(tokenizer):
    ids, lengths = tokenizer.encode([''])
    assert lengths[0] == 2
    assert ids[0, :3].tolist() == [*tokenizer.begin, tokenizer.end, 0]


def test_truncation_keeps_the_first_tokens_and_the_end_token_and_is_counted(tokenizer):
    short, long = load_json(tokenizer, 6), load_json(tokenizer, 9000)
    captions = [LONG, '猫' * 100, 'A cat sits on the sofa.']
    ids, lengths = short.encode(captions)
    whole, _ = long.encode(captions)
    assert lengths.tolist() == [6, 6, 6]
    assert np.array_equal(ids[:, :5], whole[:, :5])
    assert (ids[:, 5] == short.end).all()
    assert (short.count_truncated(captions), long.count_truncated(captions)) == (3, 0)
    assert short.count_truncated(['', 'x', *captions]) == 3


def test_a_caption_that_just_fits_is_not_counted(tokenizer):
    length = int(tokenizer.encode(['two dogs run'])[1][0])
    exact, less = load_json(tokenizer, length), load_json(tokenizer, length - 1)
    assert (exact.count_truncated(['two dogs run']), less.count_truncated(['two dogs run'])) == (0, 1)


def test_a_row_depends_neither_on_the_padding_nor_on_the_other_captions(tokenizer):
    captions = [*CAPTIONS[:6], *STRANGE.values(), '']
    longer = load_json(tokenizer, 64)
    ids, lengths = longer.encode([*captions, LONG])
    for row, caption in enumerate(captions):
        alone, length = tokenizer.encode([caption])
        assert length[0] == min(lengths[row], 32)
        assert np.array_equal(alone[0, :length[0] - 1], ids[row, :length[0] - 1])


def test_upper_and_lower_case_composed_and_decomposed_letters_are_the_same(tokenizer):
    for one, other in (('A CAT', 'a cat'), ('\u00e9t\u00e9', 'e\u0301te\u0301')):
        assert np.array_equal(tokenizer.encode([one])[0], tokenizer.encode([other])[0])


def test_saved_and_loaded_it_gives_equal_ids(tokenizer, file):
    loaded = load_tokenizer(file, 32)
    captions = [*CAPTIONS, *STRANGE.values(), '', LONG]
    for one, other in zip(tokenizer.encode(captions), loaded.encode(captions)):
        assert np.array_equal(one, other)
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.vocab_size == tokenizer.vocab_size


@pytest.mark.parametrize('caption', [*CAPTIONS[:6], *STRANGE.values(), ''])
def test_pieces_join_to_the_caption_one_for_each_token(caption, tokenizer):
    tokenizer = load_json(tokenizer, 99)
    pieces = tokenizer.pieces(caption)
    assert ''.join(pieces) == caption
    assert len(pieces) == tokenizer.encode([caption])[1][0] - 2


def test_pieces_of_a_long_caption_are_those_of_the_tokens_that_are_kept(tokenizer):
    pieces = tokenizer.pieces(LONG)
    assert len(pieces) == 30
    assert LONG.startswith(''.join(pieces))


def test_words_of_a_caption_start_with_a_space_in_their_first_piece(tokenizer):
    pieces = tokenizer.pieces('the cat sits')
    assert [piece.strip()[0] for piece in pieces if piece.startswith(' ')] == ['c', 's']


def test_training_twice_even_in_another_process_gives_the_same_tokenizer(tokenizer):
    code = ('import json, sys; from hcma.data.tokenizer import train_tokenizer\n'
            'sys.stdout.buffer.write(train_tokenizer(json.load(sys.stdin), 320, 32).to_json().encode())')
    done = subprocess.run([sys.executable, '-c', code], input=json.dumps(CAPTIONS).encode(),
                          capture_output=True, check=True)
    assert done.stdout.decode() == tokenizer.to_json() == train_tokenizer(iter(CAPTIONS), 320, 32).to_json()


def test_special_tokens_come_first_and_the_vocabulary_has_its_limit(tokenizer):
    assert [tokenizer.tokenizer.token_to_id(token) for token in (PAD, BEGIN, END)] == [0, 1, 2]
    assert train_tokenizer(['x'], 260, 8).vocab_size <= 260


def given(path, tokens):
    """A word-level tokenizer.json as other projects write them."""
    tokenizer = Tokenizer(models.WordLevel({token: number for number, token in enumerate(tokens)}, '[UNK]'))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=50)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(path))
    return path


def test_a_given_tokenizer_is_used_without_its_own_padding_and_truncation(tmp_path):
    tokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'a', 'cat', 'sits', 'on', 'sofa']
    tokenizer = load_tokenizer(given(tmp_path / 'given.json', tokens), 9)
    ids, lengths = tokenizer.encode(['a cat sits on a sofa', 'zebra'])
    assert ids.tolist() == [[2, 4, 5, 6, 7, 4, 8, 3, 0], [2, 1, 3, 0, 0, 0, 0, 0, 0]]
    assert (lengths.tolist(), tokenizer.vocab_size) == ([8, 3], 9)
    assert tokenizer.pieces('a cat sits') == ['a', ' cat', ' sits']


def test_a_tokenizer_without_an_end_token_is_refused(tmp_path):
    with pytest.raises(InputError, match=r'given.json: has none of the tokens <\|end\|>.*\[SEP\]'):
        load_tokenizer(given(tmp_path / 'given.json', ['[UNK]', '[CLS]', 'a']), 9)


def test_what_is_no_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match='none.json: no such tokenizer'):
        load_tokenizer(tmp_path / 'none.json', 8)
    for content in (b'', b'{}', b'\xff\xd8'):
        (tmp_path / 'bad.json').write_bytes(content)
        with pytest.raises(InputError, match='bad.json: not a tokenizer.json'):
            load_tokenizer(tmp_path / 'bad.json', 8)
