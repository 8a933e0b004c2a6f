"""Search a folder of pictures with what tools/export.py wrote: ``search_onnx.py EXPORT FOLDER "a dog on a beach"``.

Needs onnxruntime, numpy, pillow and tokenizers, and nothing of hcma.
"""
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps
from tokenizers import Tokenizer


def square(path, about):
    """The picture as the model wants it, (1, S, S, 3) uint8."""
    size, image = about['size'], ImageOps.exif_transpose(Image.open(path)).convert('RGB')
    if about['fit'] != 'squash':
        side = min(image.size)
        if about['fit'] == 'shortest':
            image = image.resize([length * size // side for length in image.size], Image.Resampling.BICUBIC)
            side = size
        left, top = ((length - side) // 2 for length in image.size)
        image = image.crop((left, top, left + side, top + side))
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(image)[None]


def tokens(text, tokenizer, about):
    """Ids (1, L) int32 and their count (1,) int32."""
    begin, room = about['begin'], about['length'] - len(about['begin']) - 1
    ids = [*begin, *tokenizer.encode(text, add_special_tokens=False).ids[:room], about['end']]
    padded = ids + [about['padding']] * (about['length'] - len(ids))
    return np.array([padded], np.int32), np.array([len(ids)], np.int32)


def run(session, *inputs):
    """The first output of a graph: the feature of the whole picture or text."""
    return session.run(None, {one.name: value for one, value in zip(session.get_inputs(), inputs)})[0][0]


def main(export, folder, text):
    """Print the best ten pictures of ``folder`` with their cosines."""
    export = Path(export)
    about = json.loads((export / 'export.json').read_text(encoding='utf-8'))
    image, words = (onnxruntime.InferenceSession(str(export / f'{name}.onnx'), providers=['CPUExecutionProvider'])
                    for name in ('image', 'text'))
    tokenizer = Tokenizer.from_file(str(export / 'tokenizer.json'))
    query = run(words, *tokens(text, tokenizer, about['text']))
    paths = [path for path in sorted(Path(folder).rglob('*')) if path.suffix.lower() in ('.jpg', '.jpeg', '.png')]
    scored = [(float(query @ run(image, square(path, about['image']))), path) for path in paths]
    for score, path in sorted(scored, reverse=True)[:10]:
        print(f'{score:.3f}  {path}')


if __name__ == '__main__':
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
