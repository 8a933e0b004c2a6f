"""Pack image-caption pairs for training: ``tools/prepare.py PAIRS --out DATA``.

PAIRS is a JSONL, CSV or TSV file, a COCO captions JSON, a Flickr token file, a folder of images with a .txt beside
each, or tar shards (a tar, a folder of tars, a glob). DATA becomes a folder of MindRecord shards; every row,
box and chunk that could not be used is named in DATA/rejects.jsonl.
"""
import argparse
import os

from hcma import cli
from hcma.data.meta import META
from hcma.data.sources import FORMATS, Options, read_pairs
from hcma.data.sources.parts import BAD_PARTS
from hcma.data.whole import require_free


def parse_arguments():
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('pairs', metavar='PAIRS', nargs='+', help='a file, a folder or a glob of tars; or several')
    parser.add_argument('--out', metavar='DATA', required=True, help='the folder to make')
    parser.add_argument('--format', choices=FORMATS, help='what PAIRS is (default: recognised)')
    parser.add_argument('--image-root', metavar='DIR', help='where image paths start (default: beside PAIRS)')
    parser.add_argument('--image-key', metavar='NAME', help='the field with the image; in folders and tars its suffix')
    parser.add_argument('--caption-key', metavar='NAME', help='the field with the captions, or their suffix')
    parser.add_argument('--split', metavar='NAME', help='keep only rows whose "split" field equals NAME')
    parser.add_argument('--max-side', metavar='PIXELS', type=cli.positive, help='shrink larger images to this')
    parser.add_argument('--workers', metavar='N', type=cli.positive, help='threads that read (default: all cores)')
    parser.add_argument('--shards', metavar='N', type=cli.positive, help='files to make (default: 1 for 20,000 images)')
    parser.add_argument('--overwrite', action='store_true', help='replace DATA if it is a packed data set')
    return parser.parse_args()


def main():
    """Read, pack and say what became of every row."""
    arguments = parse_arguments()
    require_free(arguments.out, arguments.overwrite, META)
    options = Options(arguments.image_root, arguments.image_key, arguments.caption_key, arguments.split)
    pairs, rejects = [], []
    for path in arguments.pairs:
        more = read_pairs(path, arguments.format, options)
        pairs += more[0]
        rejects += more[1]

    from hcma.data.pack import REJECTS, pack  # loads MindSpore, which a mistake above should not wait for
    source = ' '.join(os.path.basename(os.path.normpath(path)) for path in arguments.pairs)
    meta = pack(pairs, arguments.out, rejects, source, shards=arguments.shards, max_side=arguments.max_side,
                workers=arguments.workers, overwrite=arguments.overwrite)

    print(f'{arguments.out}: {meta["images"]} pairs (images), {meta["captions"]} captions, '
          f'rejected rows: {sum(count for kind, count in meta["rejected"].items() if kind not in BAD_PARTS)}')
    if meta['negatives'] or meta['negatives_dropped']:
        print(f'{meta["negatives"]} negatives; {meta["negatives_dropped"]} dropped that equal a caption of their image')
    if meta['twins']:
        print(f'{meta["twins"]} rows have a twin')
    if meta['boxes'] or meta['chunks']:
        print(f'{meta["boxes"]} boxes, {meta["chunks"]} chunks')
    for reason, count in meta['rejected'].items():
        print(f'  {count:8d}  {reason}')
    if meta['rejected']:
        print(f'each of these: {os.path.join(arguments.out, REJECTS)}')


if __name__ == '__main__':
    cli.run(main)
