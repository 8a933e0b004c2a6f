"""A few coloured pictures with questions that one look answers, and an aligned model that was never trained."""
import json

import numpy as np
from PIL import Image

from hcma.data.tokenizer import train_tokenizer
from hcma.training.checkpoint import checkpoint_path, save_checkpoint
from hcma.training.trainer import build_step

COLOURS = {'red': (255, 0, 0), 'green': (0, 255, 0), 'blue': (0, 0, 255)}


def write_questions(folder, extra=()):
    """Two questions about each of three pictures, then the lines ``extra``; returns the path of the JSONL."""
    rows = []
    for name, colour in COLOURS.items():
        Image.fromarray(np.full((16, 16, 3), colour, np.uint8)).save(folder / f'{name}.png')
        rows.append({'image': f'{name}.png', 'question': 'what', 'answer': name, 'type': 'colour'})
        rows.append({'image': f'{name}.png', 'question': 'red', 'answers': ['yes' if name == 'red' else 'no'],
                     'type': 'exist'})
    path = folder / 'questions.jsonl'
    path.write_text('\n'.join([*map(json.dumps, rows), *extra]) + '\n', encoding='utf-8')
    return path


def save_aligned(run, recipe):
    """A checkpoint of ``recipe`` in the run ``run``, with the weights it began with."""
    tokenizer = train_tokenizer(['what red'], recipe.model.text.vocab_size, recipe.model.text.length)
    save_checkpoint(checkpoint_path(run, 1), build_step(recipe, tokenizer.vocab_size, 1), recipe, tokenizer, {})
    return run
