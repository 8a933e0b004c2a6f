"""Floating-point operations of a training step, counted from the recipe: two for each product that is added up.

Only matrix products count, once forward and, where there is a backward pass, twice more, whatever is computed again:
what a model needs, not what a way of computing it takes.
"""
from hcma.plan.activations import positions, seen, stem_pixels
from hcma.plan.levels import image_rows, samples, text_rows, towers
from hcma.plan.parameters import linears

FORWARD_AND_BACKWARD = 3


def step_flops(recipe):
    """Operations of one step with ``train.batch_size`` pairs, {'image', 'text', 'loss'}."""
    count = samples(recipe)
    flops = {name: count[name] * _tower(recipe, name, tower, rows) for name, tower, rows in towers(recipe)}
    return {**flops, 'loss': FORWARD_AND_BACKWARD * (_scores(recipe, count) + _fusion(recipe))}


def forward_flops(recipe):
    """Operations that encode one whole picture and one text, {'image', 'text'}."""
    return {name: _forward(recipe, name, tower, rows, positions(tower)) for name, tower, rows in towers(recipe)}


def _tower(recipe, name, tower, rows):
    """Operations for one sample in training."""
    forward = _forward(recipe, name, tower, rows, seen(recipe, tower))
    return forward if tower.train == 'frozen' else FORWARD_AND_BACKWARD * forward


def _forward(recipe, name, tower, rows, inside):
    """Operations for a sample with ``inside`` rows in the blocks; low-rank additions are too small to count."""
    block = sum(2 * inside * inputs * outputs for inputs, outputs in linears(tower)) + 4 * inside ** 2 * tower.width
    widths = {'sentence_global': recipe.model.embed_width}
    ends = sum(2 * rows(recipe.model, level) * tower.width * widths.get(level, recipe.model.word_embed_width)
               for level in {'sentence_global': None, **dict.fromkeys(recipe.loss.levels)})
    return tower.depth * block + ends + (_stem(tower) if name == 'image' else 0)


def _stem(image):
    if image.stem == 'patchify':
        return 2 * image.patches * 3 * image.patch_size ** 2 * image.width
    total, inputs = 0, 3
    for outputs, (height, width) in zip(image.stem_channels, stem_pixels(image)):
        total += 2 * 9 * inputs * outputs * height * width
        inputs = outputs
    return total + 2 * 9 * inputs * image.width * image.patches


def _scores(recipe, count):
    """All texts with all images, and wrong texts with their own."""
    batch, model, total = count['image'], recipe.model, 0
    pairs = batch ** 2 + count['text'] - batch
    for level in recipe.loss.levels:
        if level == 'sentence_global':
            total += 2 * pairs * model.embed_width
            continue
        products = 2 * text_rows(model, level) * image_rows(model, level) * model.word_embed_width
        within = batch if recipe.loss.score == 'in_pair' else pairs
        total += within * products * (1 if recipe.loss.score == 'max' else 2)  # scores, and contexts
    return total


def _fusion(recipe):
    model = recipe.model
    if model.fusion is None:
        return 0
    words, patches, width = model.text.length, model.image.patches, model.text.width
    block = 2 * words * width * width * 6 + 2 * patches * width * width * 2 + 4 * words * patches * width
    adapt = 2 * patches * model.image.width * width
    pairs = recipe.train.batch_size * (3 if recipe.data.negatives == 'none' else 4)
    return pairs * (model.fusion.depth * block + adapt)
