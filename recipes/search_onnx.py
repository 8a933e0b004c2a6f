"""Search a folder of pictures with what tools/export.py wrote: ``search_onnx.py EXPORT FOLDER "a dog on a beach"``.

Needs onnxruntime, numpy, pillow and tokenizers, and nothing of hcma.
"""
import html
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps
from tokenizers import Tokenizer


def prepared(path, about):
    """The picture as the model wants it, (1, H, W, 3) uint8."""
    height, width = about['size']
    image = ImageOps.exif_transpose(Image.open(path)).convert('RGB')
    if about['fit'] == 'shortest':  # the least size of this aspect that covers the model's
        by_height = image.height * width <= image.width * height
        one, other = (height, image.height) if by_height else (width, image.width)
        image = image.resize([side * one // other for side in image.size], Image.Resampling.BICUBIC)
    if about['fit'] != 'squash':  # the largest central part of the model's aspect
        seen = min(image.width, image.height * width // height), min(image.height, image.width * height // width)
        left, top = ((whole - part) // 2 for whole, part in zip(image.size, seen))
        image = image.crop((left, top, left + seen[0], top + seen[1]))
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(image)[None]


def tokens(text, tokenizer, about):
    """Ids (1, L) int32 and their count (1,) int32."""
    if about['clean'] == 'clip':  # besides, CLIP turns ligatures and full-width letters into plain ones
        text = html.unescape(html.unescape(text)).strip()
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
    if (about['format'], about['batch']) != ('onnx', 1):
        sys.exit(f'{export}: was exported as {about["format"]}, batch {about["batch"]}; export as onnx with --batch 1')
    image, words = (onnxruntime.InferenceSession(str(export / f'{name}.onnx'), providers=['CPUExecutionProvider'])
                    for name in ('image', 'text'))
    tokenizer = Tokenizer.from_file(str(export / 'tokenizer.json'))
    query = run(words, *tokens(text, tokenizer, about['text']))
    paths = [path for path in sorted(Path(folder).rglob('*')) if path.suffix.lower() in ('.jpg', '.jpeg', '.png')]
    scored = []
    for path in paths:
        try:
            scored.append((float(query @ run(image, prepared(path, about['image']))), path))
        except (OSError, ValueError) as error:
            print(f'{path}: skipped ({error})', file=sys.stderr)
    for score, path in sorted(scored, reverse=True)[:10]:
        print(f'{score:.3f}  {path}')


if __name__ == '__main__':
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
