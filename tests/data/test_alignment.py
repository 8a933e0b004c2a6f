"""Words of two tokenizers align by the characters that they share."""
import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from hcma.data.alignment import Alignment
from hcma.data.tokenizer import CaptionTokenizer, train_tokenizer
from hcma.errors import InputError

CAPTIONS = ['a red disc left of a blue box', 'two small crosses', '红色的圆在方块左边', 'Ünlü café']


@pytest.fixture(scope='module')
def letters():
    """A tokenizer of single characters (bytes), 40 tokens long."""
    return train_tokenizer([], 259, 40)


@pytest.fixture(scope='module')
def words():
    """A tokenizer of the words of the captions, 9 tokens long."""
    return train_tokenizer(CAPTIONS * 9, 400, 9)


def whole_words(length, names):
    """A tokenizer that knows only these words."""
    vocabulary = {name: number for number, name in enumerate(['<|begin|>', '<|end|>', '?', *names])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token='?'))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return CaptionTokenizer(tokenizer, length)


def test_a_tokenizer_aligns_with_itself_word_by_word(words):
    for caption in CAPTIONS[:3]:
        _, length = words.encode_one(caption)
        expected = np.eye(9, dtype=np.float32)
        expected[0] = expected[length - 1:] = 0
        np.testing.assert_array_equal(Alignment(words, words)(caption), expected)


def test_letters_align_with_the_word_they_are_in_and_a_word_evenly_with_its_letters(letters):
    words = whole_words(6, ['two', 'small', 'crosses'])
    to_words, to_letters = Alignment(letters, words)('two small'), Alignment(words, letters)('two small')
    # The tokenizer puts a space before the first word, which has the place of its first letter.
    assert set(to_letters[1]) == {0, np.float32(1 / 4)} and set(to_letters[2]) == {0, np.float32(1 / 5)}
    np.testing.assert_allclose(to_letters.sum(1), [0, 1, 1, 0, 0, 0], rtol=1e-6)
    assert set(map(tuple, to_words[to_words.sum(1) > 0].tolist())) == {(0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)}


def test_a_word_that_the_other_cut_off_is_aligned_with_nothing(letters):
    words, short = whole_words(8, ['two', 'small', 'crosses']), whole_words(4, ['two', 'small', 'crosses'])
    assert Alignment(words, short)('two small crosses').sum(1).tolist() == [0, 1, 1, 0, 0, 0, 0, 0]


def test_rows_sum_to_one_or_zero_for_any_text(letters, words):
    for caption in CAPTIONS:
        for own, other in ((letters, words), (words, letters)):
            rows = Alignment(own, other)(caption).sum(1)
            assert ((np.abs(rows - 1) < 1e-6) | (rows == 0)).all() and rows.max() > 0


def test_tokenizers_that_share_no_characters_are_refused_with_both_names():
    class Placeless(CaptionTokenizer):
        def characters(self, caption):
            return {1: (0, 0)}
    words = whole_words(8, ['two', 'small'])
    with pytest.raises(InputError, match='the teacher RUN: none of its words .* of the student, .*data.tokenizer'):
        Alignment(words, Placeless(words.tokenizer, 8)).require_some(['two small'], 'the student', 'the teacher RUN')
