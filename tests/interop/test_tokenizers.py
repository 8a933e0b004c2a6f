"""Tokens are those of CLIP's own algorithm, which is written out here, and of BERT's."""
import gzip
import html
import json
import tarfile
import unicodedata

import pytest

from hcma.data.clean import clean
from hcma.data.tokenizer import CaptionTokenizer
from hcma.errors import InputError
from hcma.interop.tokenizers import find_tokenizer
from helpers.foreign_weights import BERT, BPE, write_tokenizer

ODD = ['', ' ', 'a\tcat\n\nsits', '\U0001f600 a dog \U0001f415\u200d\U0001f9ba runs', 'fish &amp; chips',
       'fish &amp;amp; chips &lt;b&gt;', "don't I'll WE'VE", '\u201ccurly\u201d \u2018quotes\u2019',
       'na\u00efve caf\u00e9 \u00c9', 'e\u0301te\u0301', 'word ' * 1000, '\u732b' * 100, 'A  MAN!!! 1234 12:30',
       '\ud55c\uad6d\uc5b4 \u0627\u0644 \u0939\u093f', 'a\u00a0b', '\ufb01ne o\ufb03ce',
       '\uff26\uff35\uff2c\uff2c\u3000w']


def byte_symbols():
    """CLIP's printable symbol for each byte."""
    own = [byte for byte in range(256) if chr(byte).isprintable() and byte != 32 and not 127 <= byte <= 160
           and byte != 173]
    others = iter(range(256, 512))
    return {byte: chr(byte) if byte in own else chr(next(others)) for byte in range(256)}


def words(text):
    """CLIP's words: contractions, runs of letters, single digits, runs of anything else."""
    found, at = [], 0
    while at < len(text):
        tail = next((tail for tail in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d") if text.startswith(tail, at)), None)
        kind = _kind(text[at])
        end = at + len(tail or text[at])
        while tail is None and kind in 'LO' and end < len(text) and _kind(text[end]) == kind:
            end += 1
        if kind != ' ':
            found.append(text[at:end])
        at = end
    return found


def _kind(character):
    if character.isspace():
        return ' '
    return {'L': 'L', 'N': 'N'}.get(unicodedata.category(character)[0], 'O')


def merged(word, ranks):
    """The byte pairs of a word, joined in the order of their ranks."""
    symbols = byte_symbols()
    parts = [symbols[byte] for byte in word.encode()]
    parts[-1] += '</w>'
    while len(parts) > 1:
        rank, at = min((ranks.get(pair, len(ranks)), at) for at, pair in enumerate(zip(parts, parts[1:])))
        if rank == len(ranks):
            break
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


@pytest.fixture
def openai(real_data):
    """CLIP's file of merges, its vocabulary and ranks."""
    path = real_data('tok') / 'bpe_simple_vocab_16e6.txt.gz'
    lines = gzip.decompress(path.read_bytes()).decode().split('\n')[1:48895]
    merges = [tuple(line.split()) for line in lines]
    symbols = [chr(byte) for byte in range(256) if byte_symbols()[byte] == chr(byte)]
    symbols += [byte_symbols()[byte] for byte in range(256) if byte_symbols()[byte] != chr(byte)]
    tokens = [*symbols, *(one + '</w>' for one in symbols), *map(''.join, merges), '<|startoftext|>', '<|endoftext|>']
    return path, {token: at for at, token in enumerate(tokens)}, {pair: at for at, pair in enumerate(merges)}


def reference(text, vocabulary, ranks):
    tokens = [part for word in words(text) for part in merged(word, ranks)]
    return [49406, *(vocabulary[token] for token in tokens[:75]), 49407]


def captions(real_data):
    """Some of Flickr8k's validation captions, in both languages, and the odd ones."""
    with tarfile.open(real_data('flickr8k.tar')) as archive:
        rows = [json.loads(line) for line in archive.extractfile('pairs/val.jsonl').read().decode().splitlines()[::32]]
    return [text for row in rows for text in row['captions'] + row['captions_zh']] + ODD


def test_ids_are_those_of_clips_algorithm_on_real_and_odd_captions(openai, real_data, tmp_path):
    path, vocabulary, ranks = openai
    texts = captions(real_data)
    (tmp_path / 'vocab.json').write_text(json.dumps(vocabulary), encoding='utf-8')
    (tmp_path / 'merges.txt').write_text('\n'.join(['#version: 0.2', *map(' '.join, ranks), '']), encoding='utf-8')
    for place in (path, tmp_path):
        ids, lengths = CaptionTokenizer(find_tokenizer(place)[0], 77).encode(texts)
        expected = [reference(unicodedata.normalize('NFC', text).lower(), vocabulary, ranks) for text in texts]
        assert [row[:length].tolist() for row, length in zip(ids, lengths)] == expected


def test_openais_own_files_clean_captions_first(openai):
    path, vocabulary, ranks = openai
    tokenizer = CaptionTokenizer(find_tokenizer(path)[0], 77, clean='clip')
    cleaned = {'fish &amp;amp; chips &lt;b&gt;': 'fish & chips <b>', '\ufb01ne o\ufb03ce': 'fine office',
               '\u201ccurly\u201d \u2018quotes\u2019': '"curly" \'quotes\'', '\u03a3\u0391\u03a3': '\u03c3\u03b1\u03c2',
               '\uff26\uff35\uff2c\uff2c\u3000w': 'full w', '\ufeffx\x00y\x7f': 'xy', ' &#39;a&rsquo;b ': "'a'b"}
    for text, plain in cleaned.items():
        assert clean(text) == plain
        ids, length = tokenizer.encode_one(text)
        assert ids[:length].tolist() == reference(plain, vocabulary, ranks)
    for text in ODD:
        assert html.unescape(clean(text)) == clean(text) == clean(clean(text))


def test_a_clip_folder_gives_its_ids_and_pieces(tmp_path):
    write_tokenizer(tmp_path, 'clip')
    tokenizer, name = find_tokenizer(tmp_path)
    captions = CaptionTokenizer(tokenizer, 9)
    assert name == 'vocab.json' and captions.vocab_size == len(BPE)
    ids, length = captions.encode_one('ABCD abd  !')
    tokens = ['<|startoftext|>', 'ab', 'cd</w>', 'ab', 'd</w>', '!</w>', '<|endoftext|>']
    assert [BPE[number] for number in ids[:length]] in (tokens, [tokens[0], 'abcd</w>', *tokens[3:]])
    assert ''.join(captions.pieces('abcd ab!')) == 'abcd ab!'


def test_a_bert_vocabulary_gives_its_ids(tmp_path):
    write_tokenizer(tmp_path, 'chinese_clip')
    captions = CaptionTokenizer(find_tokenizer(tmp_path)[0], 12)
    ids, length = captions.encode_one('Cats\t猫狗, abx!')
    assert [BERT[number] for number in ids[:length]] == ['[CLS]', 'cat', '##s', '猫', '狗', '[UNK]', '[UNK]', '!',
                                                         '[SEP]']


def test_siglip_has_no_begin_and_its_own_padding(tmp_path):
    write_tokenizer(tmp_path, 'siglip')
    captions = CaptionTokenizer(find_tokenizer(tmp_path)[0], 6, begin=False, padding=1)
    assert captions.encode(['猫cd', 'abcdabcd'])[0].tolist() == [[12, 15, 2, 1, 1, 1], [4, 5, 15, 4, 5, 2]]
    assert captions.encode(['猫cd', 'abcdabcd'])[1].tolist() == [3, 6] and captions.count_truncated(['abcdabcd']) == 1
    assert captions.pieces('猫cd') == ['猫', 'cd']


def test_files_that_are_no_tokenizer_are_refused(tmp_path):
    for name, text in (('tokenizer.json', '{}'), ('vocab.json', '[]'), ('x.txt', 'no special tokens')):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=name):
            find_tokenizer(tmp_path / name)
    (tmp_path / 'tokenizer.json').unlink()
    (tmp_path / 'vocab.json').write_text('{"a": 0}')
    with pytest.raises(InputError, match='merges.txt: cannot be read .* vocab.json needs it beside'):
        find_tokenizer(tmp_path)
