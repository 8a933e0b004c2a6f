"""What OpenAI's CLIP does to a caption before its tokenizer sees it: entities, ligatures, widths, quotes, controls."""
import html
import re
import unicodedata

_LIGATURES = {code: unicodedata.normalize('NFKC', chr(code)) for code in (
    0x132, 0x133, *range(0x1C4, 0x1CD), *range(0x1F1, 0x1F4), *range(0xFB00, 0xFB05), 0xFB06)}
_LIGATURES.update({0x149: "'n", 0xFB05: '\u017ft'})
_WIDTHS = {0x3000: ' ', **{code: unicodedata.normalize('NFKC', chr(code)) for code in range(0xFF01, 0xFFF0)}}
_QUOTES = {**dict.fromkeys((0x2BC, *range(0x2018, 0x201C)), "'"), **dict.fromkeys(range(0x201C, 0x2020), '"')}
_BREAKS = dict.fromkeys((0x85, 0x2028, 0x2029), '\n')
_CONTROLS = dict.fromkeys((*range(0x00, 0x09), 0x0B, *range(0x0E, 0x20), 0x7F, *range(0x206A, 0x2070), 0xFEFF,
                           *range(0xFFF9, 0xFFFD)))
_TABLE = {**_LIGATURES, **_WIDTHS, **_QUOTES, **_BREAKS, **_CONTROLS}
_TERMINAL = re.compile('\x1b\\[((?:\\d|;)*)([a-zA-Z])')


def clean(text):
    """``text`` in lower case, with one form of each character, and HTML entities read (twice: careless web pages).

    These are the steps of ftfy's ``fix_text`` but for its guesses at text that was decoded wrongly.
    """
    if '<' not in text:
        text = html.unescape(text)
    text = _TERMINAL.sub('', text).translate(_TABLE)
    text = unicodedata.normalize('NFC', text)
    return html.unescape(html.unescape(text)).strip().lower()
