"""The tokenizers that come with weights: tokenizer.json, CLIP's vocabulary and merges, BERT's vocabulary."""
import gzip
import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from hcma.data.tokenizer import CaptionTokenizer
from hcma.data.words import CLIP_CUTS, CLIP_NORMALIZER
from hcma.errors import InputError
from hcma.interop.files import read_json

BEGIN, END = '<|startoftext|>', '<|endoftext|>'
FILES = ('tokenizer.json', 'vocab.json', 'vocab.txt', 'bpe_simple_vocab_16e6.txt.gz')
# OpenAI's file of merges holds more than its vocabulary has room for: 512 bytes and 2 special tokens come besides.
_CLIP_MERGES = 49152 - 256 - 2


def find_tokenizer(path):
    """The (tokenizer, name of its file) in the folder ``path``, or in the file itself; raises ``InputError``."""
    path = Path(path)
    found = [path / name for name in FILES if (path / name).is_file()] if path.is_dir() else [path]
    if not found or not found[0].is_file():
        raise InputError(f'{path}: no tokenizer there ({", ".join(FILES)}); pass --tokenizer FILE')
    path = found[0]
    try:
        return _read(path), path.name
    except InputError:
        raise
    except Exception as error:  # the library raises plain Exception for every fault of a file
        raise InputError(f'{path}: not a tokenizer ({error}); pass another with --tokenizer') from None


def _read(path):
    if path.name.endswith('.gz'):
        return clip_tokenizer(*_openai_merges(path))
    if path.name == 'vocab.json':
        return clip_tokenizer(read_json(path), _merges(path.with_name('merges.txt')))
    if path.suffix == '.txt':
        options = path.with_name('tokenizer_config.json')
        lower = read_json(options).get('do_lower_case', True) if options.is_file() else True
        return bert_tokenizer(_lines(path), lower)
    return Tokenizer.from_file(str(path))


def clip_tokenizer(vocabulary, merges):
    """CLIP's tokenizer of ``vocabulary`` {token: id} and ``merges`` [(left, right)]."""
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix='', end_of_word_suffix='</w>',
                                     unk_token=END, fuse_unk=False))
    tokenizer.normalizer, tokenizer.pre_tokenizer = CLIP_NORMALIZER, CLIP_CUTS
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BEGIN, END])
    tokenizer.post_processor = processors.RobertaProcessing(
        (END, tokenizer.token_to_id(END)), (BEGIN, tokenizer.token_to_id(BEGIN)), False, False)
    return tokenizer


def bert_tokenizer(tokens, lower):
    """BERT's tokenizer of a vocabulary, its ``tokens`` in the order of their ids."""
    tokenizer = Tokenizer(models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token='[UNK]',
                                           max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None,
                                                      lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([name for name in ('[UNK]', '[SEP]', '[PAD]', '[CLS]', '[MASK]') if name in tokens])
    tokenizer.post_processor = processors.BertProcessing(
        ('[SEP]', tokenizer.token_to_id('[SEP]')), ('[CLS]', tokenizer.token_to_id('[CLS]')))
    return tokenizer


def fill_up(tokenizer, rows, framing, length, where):
    """A ``CaptionTokenizer`` of as many ids as the embedding has ``rows``; unused ids get names that no text holds."""
    captions = CaptionTokenizer(tokenizer, length, where, **framing)
    if captions.vocab_size > rows:
        raise InputError(f'{where}: has {captions.vocab_size} ids and the model embeds {rows}; pass the tokenizer of '
                         'these weights with --tokenizer')
    tokenizer.add_special_tokens([f'<|unused {number}|>' for number in range(captions.vocab_size, rows)])
    return captions


def _lines(path):
    """Lines end at line feeds alone: some tokens are other characters that Python takes for ends."""
    text = path.read_text(encoding='utf-8').removesuffix('\n')
    return [line.removesuffix('\r') for line in text.split('\n')]


def _merges(path):
    try:
        lines = _lines(path)
    except OSError as error:
        raise InputError(f'{path}: cannot be read ({error.strerror}); vocab.json needs it beside') from None
    return [tuple(line.split()) for line in lines if line and not line.startswith('#version')]


def _openai_merges(path):
    """Vocabulary and merges of OpenAI's gzipped list of merges."""
    lines = gzip.decompress(path.read_bytes()).decode('utf-8').split('\n')
    merges = [tuple(line.split()) for line in lines[1:_CLIP_MERGES + 1]]
    symbols = _byte_symbols()
    tokens = [*symbols, *(symbol + '</w>' for symbol in symbols), *map(''.join, merges), BEGIN, END]
    return {token: number for number, token in enumerate(tokens)}, merges


def _byte_symbols():
    """The printable symbol of each byte, in CLIP's order: first the bytes that are their own symbol."""
    own = [*range(ord('!'), ord('~') + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in own]
    return [chr(byte) for byte in own] + [chr(256 + number) for number in range(len(others))]


def vocabulary_and_merges(tokenizer):
    """(vocabulary {token: id}, merges as lines) of a byte-pair tokenizer, or None of another."""
    model = json.loads(tokenizer.to_str())['model']
    if model['type'] != 'BPE' or model.get('end_of_word_suffix') != '</w>':
        return None
    return model['vocab'], [merge if isinstance(merge, str) else ' '.join(merge) for merge in model['merges']]
