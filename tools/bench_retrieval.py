"""Measure retrieval over many pairs: ``tools/bench_retrieval.py [--images N] [--captions N] [--preset NAME]``.

Random features of an untrained model stand in for encoded ones, so that only the scoring is measured: its time, and
the peak of the process's memory beside that of the features.
"""
import argparse
import time

import numpy as np

from hcma import cli
from hcma.bench.stopwatch import peak_bytes
from hcma.presets import PRESETS


def main():
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--images', type=cli.positive, default=5000, help='default: %(default)s')
    parser.add_argument('--captions', type=cli.positive, default=25000, help='default: %(default)s')
    parser.add_argument('--preset', choices=PRESETS, default='small', help='default: %(default)s')
    arguments = parser.parse_args()

    from hcma import backend
    from hcma.data.tokenizer import train_tokenizer
    from hcma.evaluation.features import Encoder
    from hcma.evaluation.retrieval import retrieval
    from hcma.evaluation.weights import weightings
    from hcma.models.hcma import build_model
    from hcma.recipe_io import parse_recipe
    backend.set_up('graph')
    recipe = parse_recipe({'model': {'preset': arguments.preset}, 'train': {'epochs': 1}}, 'the benchmark')
    model = build_model(recipe, recipe.model.text.vocab_size)
    text, image = features(recipe.model, arguments.captions, arguments.images)
    image_group = np.arange(arguments.images)
    tokenizer = train_tokenizer(['a caption'], recipe.model.text.vocab_size, recipe.model.text.length)
    started = time.perf_counter()
    retrieval(Encoder(model, recipe, tokenizer), text, image, np.arange(arguments.captions) % arguments.images,
              image_group, weightings(model.levels, {}))
    seconds = time.perf_counter() - started
    peak = peak_bytes() / 2 ** 30
    held = sum(part.nbytes for part in text + image) / 2 ** 30
    print(f'{arguments.captions} captions x {arguments.images} images: {seconds:.0f} s, peak memory {peak:.2f} GiB, '
          f'of which the features hold {held:.2f} GiB')


def features(model, captions, images):
    """Random normalised rows in the shapes that the towers of ``model`` (a recipe's section) give."""
    rng = np.random.default_rng(0)

    def rows(*shape):
        values = rng.standard_normal(shape, np.float32)
        values /= np.linalg.norm(values, axis=-1, keepdims=True)
        return values

    mask = np.ones((captions, model.text.length), np.float32)
    mask[:, [0, -1]] = 0
    word = rows(captions, model.text.length, model.word_embed_width)
    patch = rows(images, model.image.patches, model.word_embed_width)
    return (rows(captions, model.embed_width), word, mask), (rows(images, model.embed_width), patch)


if __name__ == '__main__':
    cli.run(main)
