"""The token files of Flickr8k and Flickr30k: ``photo.jpg#0<tab>caption`` a line (Chinese ones ``photo.jpg#zhc#0``)."""
import re

from hcma.data.sources.pairs import BAD_ROW, Reject
from hcma.data.sources.text import NOT_UTF8, has_bad_bytes, numbered_lines

ROW = re.compile(r'(.+?)#(?:\w+#)?\d+[\t ]+(.*)')


def read_rows(path, file):
    """Yield ``(line, {"image": .., "caption": ..})`` or ``Reject`` for each line of the token file at ``path``."""
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        match = ROW.fullmatch(text.strip())
        if has_bad_bytes(text):
            yield Reject(file, line, '', NOT_UTF8)
        elif match is None:
            yield Reject(file, line, '', f'{BAD_ROW}: not "image#number<tab>caption"')
        else:
            yield line, {'image': match[1], 'caption': match[2]}
