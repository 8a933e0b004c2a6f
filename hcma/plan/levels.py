"""Numbers that projections, features, levels and fusion hold, counted from the recipe."""
from hcma.plan.activations import Held

# Row normalisation after a projection: product, square, sum, root, and the row itself.
PROJECTED = 3


def windows(sizes, length):
    """Phrases of a text: runs of ``sizes`` neighbours among ``length``."""
    return sum(length - size + 1 for size in sizes)


def squares(sizes, grid):
    """Regions of a picture, each overlapping the next by half."""
    def starts(side, size):
        return len({*range(0, side - size, (size + 1) // 2), side - size})
    return sum(starts(grid[0], size) * starts(grid[1], size) for size in sizes)


def image_rows(model, level):
    """Feature rows of a picture that ``level`` compares."""
    if level == 'phrase_region':
        return model.max_boxes if model.regions == 'boxes' else squares(model.region_sizes, model.image.grid)
    return {'sentence_global': 1, 'word_patch': model.image.patches}[level]


def text_rows(model, level):
    """Feature rows of a text that ``level`` compares."""
    length = model.text.length
    if level == 'phrase_region':
        return model.max_chunks if model.phrases == 'chunks' else windows(model.phrase_lengths, length)
    return {'sentence_global': 1, 'word_patch': length}[level]


def towers(recipe):
    """(name, tower, its function of feature rows) of both encoders."""
    return ('image', recipe.model.image, image_rows), ('text', recipe.model.text, text_rows)


def samples(recipe):
    """Pictures and texts that a batch encodes: false captions are encoded too."""
    batch = recipe.train.batch_size
    return {'image': batch, 'text': batch * (1 if recipe.data.negatives == 'none' else 2)}


def features(recipe, rows, tower):
    """Numbers in the features of one sample of a tower, as its ``rows`` (a function) say."""
    model = recipe.model
    total = model.embed_width
    for level in recipe.loss.levels:
        if level != 'sentence_global':
            total += rows(model, level) * (model.word_embed_width + 1)  # the mask counts for texts
    if model.fusion is not None:
        total += (text_rows(model, 'word_patch') if rows is text_rows else tower.patches) * tower.width + tower.width
    return total


def gathered(recipe):
    """Numbers of one pair's features that all ranks need: of its picture, and for a fusion both encoders' own."""
    model, total = recipe.model, 0
    for level in recipe.loss.levels:
        if level == 'sentence_global':
            total += model.embed_width
        elif recipe.loss.score != 'in_pair':
            total += image_rows(model, level) * model.word_embed_width
    if model.fusion is not None:
        total += (model.image.patches + 1) * model.image.width + (model.text.length + 1) * model.text.width
        total += model.text.length  # the mask
    return total


def projections(recipe, rows, tower):
    """What the projections of one sample hold until the features are normalised."""
    numbers = features(recipe, rows, tower)
    if 'phrase_region' not in recipe.loss.levels:
        return Held(0, PROJECTED * numbers, 4 * numbers)
    pooled, given = 2 * rows(recipe.model, 'phrase_region') * tower.width, _pooling(recipe.model, rows)
    return Held(pooled + given, PROJECTED * numbers, 4 * numbers + pooled + given)


def _pooling(model, rows):
    """How much every patch or word counts in each box or chunk of a sample; windows count alike in all samples."""
    own = model.phrases == 'chunks' if rows is text_rows else model.regions == 'boxes'
    return rows(model, 'phrase_region') * rows(model, 'word_patch') * own


def scores(recipe, texts, images, kernels):
    """What the levels of ``texts`` against ``images`` hold; ``kernels``: best matches without the products."""
    pairs, total = texts * images, Held()
    for level in recipe.loss.levels:
        words, patches = text_rows(recipe.model, level), image_rows(recipe.model, level)
        if level != 'sentence_global' and recipe.loss.score == 'in_pair':
            total += Held(0, texts * words * (2 * patches + words), 4 * texts * words * (patches + words))
            continue
        total += Held(0, 8 * pairs, 8 * pairs)
        if level == 'sentence_global':
            continue
        if recipe.loss.score == 'attention':
            each = pairs * words * (2 * patches + 3 * recipe.model.word_embed_width)
            total += Held(0, each, 2 * each)
        elif kernels:
            total += Held(0, 2 * pairs * (words + patches), 2 * pairs * (words + patches))
        else:  # the product, and in the backward pass its gradient
            total += Held(0, 2 * pairs * words * patches, 2 * pairs * words * patches)
    return total


def fusion(recipe, batch):
    """What the matching of a batch holds: matched pairs, a hard image and a hard text for each, and false captions."""
    model = recipe.model
    if model.fusion is None:
        return Held()
    pairs = batch * (3 if recipe.data.negatives == 'none' else 4)
    words, patches, width = model.text.length, model.image.patches, model.text.width
    stacked = words * width + patches * model.image.width
    square = model.fusion.heads * words * patches
    one = Held(8 * words * width + 2 * patches * width + square, 2 * words * width + square,
               20 * words * width + 10 * patches * width + 2 * square)
    outside = Held(stacked + patches * width, 0, 3 * stacked + 2 * patches * width)
    return (one.times(model.fusion.depth) + outside).times(pairs)
