"""Captions to compare tokenizers with."""
import json
import tarfile

import pytest

ODD = ['', ' ', '\t', 'a\tdog \n\n runs', 'a dog 🐶🏽 on 👨‍👩‍👧‍👦!', '🇨🇳 ❤️', 'fish &amp; chips &lt;b&gt; &#39;x&#39;',
       'ﬁsh ﬂies', 'ＡＢＣ１２３，。', 'naïve café cafe\u0301', "don't we'll I'M", '“quoted” ‘so’', 'x' * 300, 'a dog ' * 1000,
       '狗' * 1000, '123,456.78 €',
       'ǅ ß İ', 'zero\u200bwidth', '\ufeffmark', 'a-b_c/d\\e', '<|endoftext|> x', '猫 cat 狗dog']


@pytest.fixture
def captions(real_data):
    """All captions of Flickr8k in both languages, and what people write besides."""
    with tarfile.open(real_data('flickr8k.tar')) as archive:
        lines = [line for split in ('train', 'val', 'test', 'extra')
                 for line in archive.extractfile(f'pairs/{split}.jsonl').read().decode().splitlines()]
    return [text for row in map(json.loads, lines) for text in row['captions'] + row.get('captions_zh', [])] + ODD
