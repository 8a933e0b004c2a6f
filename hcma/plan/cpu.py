"""What a step holds on CPU, where MindSpore reuses part of its memory inside one graph: a formula and its constants.

The formula is linear in counts that follow from the recipe; ``tools/bench_memory.py --calibrate`` fits its constants.
"""
from hcma.plan.activations import encoder
from hcma.plan.levels import fusion, projections, samples, scores, towers
from hcma.plan.parameters import parts

MIB = 2 ** 20
# A process that has loaded MindSpore and run a graph, before any of what is planned.
BASELINE = 432 * MIB
# What is in memory at once, in units of all operations' results in the forward pass: where there is a backward pass,
# which makes about as many of its own; in frozen encoders; and in projections and what compares their features, whose
# normalisation and backward pass have many small operations. Gradients, in units of the trained weights. What a block
# takes once it is compiled (less in a frozen encoder), and the graph around it.
BACKWARD, FORWARD, FEATURES, GRADIENTS = 0.86, 0.30, 11.8, 0.88
BLOCK, FIXED = 24.2 * MIB, 155 * MIB
FROZEN_BLOCK = 0.6


def needs(recipe, setting):
    """Bytes by what they are for, as ``hcma.plan.memory.Needs`` has them."""
    counts = terms(recipe, setting)
    held = {name: BACKWARD * counts['backward'][name] + FORWARD * counts['forward'][name]
            for name in counts['backward']}
    return {'weights': counts['weights'], 'masters': 0, 'gradients': GRADIENTS * counts['trained'],
            'optimizer': 2 * counts['trained'], 'features': FEATURES * counts['features'],
            'workspace': FIXED + BLOCK * counts['blocks'], **held}


def terms(recipe, setting):
    """The counts that the constants multiply: bytes, but for ``blocks``."""
    backward, forward, counts = {}, {'loss': 0}, parts(recipe)
    blocks, numbers = recipe.model.fusion.depth if recipe.model.fusion is not None else 0, 0
    for name, tower, rows in towers(recipe):
        size = 4 * (getattr(setting, f'{name}_micro_batch') or samples(recipe)[name])
        inside, frozen = size * encoder(recipe, tower)[0].computed, tower.train == 'frozen'
        backward[name], forward[name] = (0, inside) if frozen else (inside, 0)
        numbers += size * projections(recipe, rows, tower).computed
        blocks += tower.depth * (FROZEN_BLOCK if frozen else 1)
    batch = recipe.train.batch_size
    backward['loss'] = 4 * (scores(recipe, batch, batch, True) + fusion(recipe, batch)).computed
    return {'backward': backward, 'forward': forward, 'features': numbers, 'blocks': blocks,
            'weights': 4 * sum(part.total for part in counts), 'trained': 4 * sum(part.trained for part in counts)}
