"""How many parameters the model of a recipe has, and how many of them are trained, part by part."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A part of the model: its parameters, those that are trained, and the largest single one of these."""
    name: str
    total: int
    trained: int
    largest: int


def parts(recipe, vocab_size=None):
    """The parts of the model of ``recipe``; ``vocab_size`` is the tokenizer's, the recipe's upper bound by default."""
    model, levels = recipe.model, recipe.loss.levels
    vocab_size = vocab_size or model.text.vocab_size
    encoders = [_encoder('image encoder', model.image, _image_ends(model.image), model.lora.rank),
                _encoder('text encoder', model.text, _text_ends(model.text, vocab_size), model.lora.rank)]
    ends = {'sentence_global': model.embed_width}
    projections = [width * ends.get(level, model.word_embed_width)
                   for level in {'sentence_global': None, **dict.fromkeys(levels)}
                   for width in (model.image.width, model.text.width)]
    rest = [_whole('projections', projections + [model.embed_width] * model.text.projection_bias)]
    if model.fusion is not None:
        rest.append(_whole('fusion', _fusion(model)))
    scales = len(levels)
    weights = len(recipe.loss.terms(model)) if recipe.loss.balance == 'uncertainty' else 0
    rest.append(Part('temperatures', scales + weights, scales * recipe.loss.temperature.learnable + weights, scales))
    return encoders + rest


def linears(tower):
    """(inputs, outputs) of the linear layers of one block."""
    width = tower.width
    return [(width, 3 * width), (width, width), (width, tower.mlp_width), (tower.mlp_width, width)]


def _whole(name, sizes):
    return Part(name, sum(sizes), sum(sizes), max(sizes))


def _encoder(name, tower, ends, rank):
    """An encoder whose parameters outside its blocks have the sizes ``ends``."""
    width = tower.width
    block = [inputs * outputs for inputs, outputs in linears(tower)] + [outputs for _, outputs in linears(tower)]
    block += [width] * 4 + ([tower.heads * _directions(tower)] if tower.directions else [])
    total = tower.depth * sum(block) + sum(ends)
    if tower.train == 'all':
        return Part(name, total, total, max(ends + block * min(tower.depth, 1)))
    if tower.train == 'frozen':
        return Part(name, total, 0, 0)
    additions = tower.depth * sum(rank * (inputs + outputs) for inputs, outputs in linears(tower))
    return Part(name, total + additions, additions, rank * max(3 * width, tower.mlp_width) * min(tower.depth, 1))


def _directions(tower):
    """Relative positions that a head tells apart."""
    if hasattr(tower, 'grid'):
        return (2 * tower.grid[0] - 1) * (2 * tower.grid[1] - 1) + 1
    return 2 * tower.length - 1


def _image_ends(image):
    sizes = [(image.patches + (image.pool == 'class')) * image.width, image.width, image.width]
    if image.pool == 'class':
        sizes += [image.width] * 3  # the class token, and the norm before the blocks
    if image.pool == 'attention':
        linear = linears(image)
        sizes += [inputs * outputs for inputs, outputs in linear] + [outputs for _, outputs in linear]
        sizes += [image.width] * 3  # the query, and the norm before the MLP
    if image.stem == 'patchify':
        return sizes + [3 * image.patch_size ** 2 * image.width] + [image.width] * image.patch_bias
    for inputs, outputs in zip((3, *image.stem_channels), (*image.stem_channels, image.width)):
        sizes += [9 * inputs * outputs, outputs]
    return sizes


def _text_ends(text, vocab_size):
    return [vocab_size * text.width, text.length * text.width, text.width, text.width]


def _fusion(model):
    width = model.text.width
    linear = [(model.image.width, width), (2 * width, width), (width, 1)]
    for _ in range(model.fusion.depth):
        linear += [(width, width), (width, 2 * width), (width, width), (width, 2 * width), (2 * width, width)]
    sizes = [inputs * outputs for inputs, outputs in linear] + [outputs for _, outputs in linear]
    return sizes + [width] * 4 * model.fusion.depth + [2 * width] * 2
