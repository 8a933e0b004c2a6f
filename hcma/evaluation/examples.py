"""Samples of what a model sees and chooses, written to RUN/examples for the report to draw."""
import json
from pathlib import Path

import numpy as np
from PIL import Image

from hcma.evaluation.choice import accuracy
from hcma.evaluation.features import padded_block, take
from hcma.models.scores import word_patch_cosines

HEAT_MAPS, QUERIES, SHOWN, CHOICES = 8, 6, 5, 16
FIRST_CJK = '\u2e80'


def write_heat_maps(run_dir, encoder, pictures, captions, text, image):
    """Where each word of the first ``captions`` looks in the picture of the same number: heatmaps.json has its cosines
    with the patches, attention.json the attention that each block of a fusion pays them.
    """
    captions = captions[:HEAT_MAPS]
    count = len(captions)
    if 'word_patch' in encoder.levels:
        cosine = word_cosines(encoder, text, image, count)
        _write(run_dir, 'heatmaps.json', _maps(run_dir, encoder, pictures, captions, {'cosine': cosine}))
    if 'matching' in encoder.terms:
        attention = encoder.attention(padded_block(text, 0, count), padded_block(image, 0, count))
        _write(run_dir, 'attention.json', _maps(run_dir, encoder, pictures, captions, attention))


def _maps(run_dir, encoder, pictures, captions, heat):
    """The words of each caption with each of their maps; ``heat`` is {name: (captions, L, P)}."""
    maps = []
    for number, caption in enumerate(captions):
        image = _save(run_dir, f'heat_{number:03d}.jpg', pictures[number])
        for name, heat_BLP in heat.items():
            words = [{'text': word, 'heat': heat_HW.round(4).tolist()}
                     for word, heat_HW in word_heats(encoder, caption, heat_BLP[number])]
            maps.append({'image': image, 'caption': caption, 'name': name, 'words': words})
    return maps


def word_cosines(encoder, text, image, count):
    """Cosines of each word with each patch of its own image, for the first ``count`` features, (count, L, P)."""
    word, patch = text[encoder.text_names.index('word')], image[encoder.image_names.index('patch')]
    return word_patch_cosines(padded_block((word,), 0, count)[0], padded_block((patch,), 0, count)[0]).asnumpy()


def word_heats(encoder, caption, heat_LP):
    """The words of a caption and the heat of each, a list of (word, (rows, columns))."""
    pieces, before = encoder.tokenizer.pieces(caption), len(encoder.tokenizer.begin)
    return [(word, heat.reshape(encoder.grid)) for word, heat in _words(pieces, heat_LP[before:])]


def _words(pieces, heat_LP):
    """Join the token pieces of a word and keep the larger heat of each patch; a Chinese piece is a word already."""
    words = []
    for piece, heat in zip(pieces, heat_LP):
        inside = not piece or (piece[0].isalnum() and piece[0] < FIRST_CJK)
        if words and inside:
            words[-1] = (words[-1][0] + piece, np.maximum(words[-1][1], heat))
        else:
            words.append((piece.strip(), heat))
    return words


def write_retrieved(run_dir, encoder, pictures, captions, text, image, text_group, image_group, weights):
    """What the first captions and pictures retrieve, best first, by the weighted score."""
    def scores(texts, images):
        block = encoder.score_block(*(padded_block(part, 0, len(part[0])) for part in (texts, images)))
        return np.tensordot(weights, block, 1)

    queries = range(min(QUERIES, len(pictures)))
    first_text = [int(np.flatnonzero(text_group == image_group[number])[0]) for number in queries]
    by_text = scores(take(text, first_text), image)
    by_image = scores(text, take(image, list(queries))).T
    text_to_image = []
    for query, row in zip(first_text, by_text):
        results = [{'image': _save(run_dir, f'image_{found:06d}.jpg', pictures[found]), 'score': round(row[found], 2),
                    'right': bool(image_group[found] == text_group[query])} for found in np.argsort(-row)[:SHOWN]]
        text_to_image.append({'caption': captions[query], 'results': results})
    image_to_text = []
    for query, row in zip(queries, by_image):
        results = [{'caption': captions[found], 'score': round(row[found], 2),
                    'right': bool(text_group[found] == image_group[query])} for found in np.argsort(-row)[:SHOWN]]
        image_to_text.append({'image': _save(run_dir, f'image_{query:06d}.jpg', pictures[query]), 'results': results})
    _write(run_dir, 'retrieval.json', {'text_to_image': text_to_image, 'image_to_text': image_to_text})


def write_choices(run_dir, rows, pictures, right, wrong):
    """Choices of every type in turn, those that went wrong first and then right ones; scores are (rows,)."""
    correct = accuracy(right - wrong) == 1
    order = _varied(rows, ~correct)[:CHOICES // 2] + _varied(rows, correct)[:CHOICES // 2]
    shown = []
    for number in order:
        row = rows[number]
        shown.append({'image': _save(run_dir, f'choice_{number:06d}.jpg', pictures[row['image']]),
                      **{key: row[key] for key in ('caption', 'negative_caption', 'type')},
                      'scores': [round(float(right[number]), 2), round(float(wrong[number]), 2)],
                      'right': bool(correct[number])})
    _write(run_dir, 'choices.json', shown)


def _varied(rows, chosen):
    """The numbers of the chosen rows, taking the types in turn."""
    seen, keyed = {}, []
    for number in np.flatnonzero(chosen):
        kind = rows[number]['type']
        seen[kind] = seen.get(kind, 0) + 1
        keyed.append((seen[kind], kind, int(number)))
    return [number for _, _, number in sorted(keyed)]


def examples_file(run_dir, name):
    """The path of the example ``name`` of a run, its folder made."""
    path = Path(run_dir) / 'examples' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _save(run_dir, name, picture):
    Image.fromarray(picture).save(examples_file(run_dir, name), quality=95, subsampling=0)
    return name


def _write(run_dir, name, value):
    text = json.dumps(value, ensure_ascii=False, indent=1)
    examples_file(run_dir, name).write_text(text, encoding='utf-8')
