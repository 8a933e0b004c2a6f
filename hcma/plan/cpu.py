"""What a step holds on CPU, where MindSpore reuses little memory inside one graph: a formula and its constants.

The formula is linear in counts that follow from the recipe; ``tools/bench_memory.py --calibrate`` fits its constants.
"""
from hcma.plan.activations import encoder
from hcma.plan.levels import fusion, projections, samples, scores, towers
from hcma.plan.parameters import parts

MIB = 2 ** 20
# A process that has loaded MindSpore and run a graph, before any of what is planned.
BASELINE = 435 * MIB
# The share of all operations' results that is in memory at once, where there is a backward pass (it has about as many
# of its own) and where there is none; gradients and their scaled copies in units of the trained weights; what a
# compiled block takes, and the graph around it.
BACKWARD, FORWARD, GRADIENTS, BLOCK, FIXED = 1.65, 0.9, 1.3, 23.5 * MIB, 137 * MIB


def needs(recipe, setting):
    """Bytes by what they are for, as ``hcma.plan.memory.Needs`` has them."""
    counts = terms(recipe, setting)
    held = {name: BACKWARD * counts['backward'][name] + FORWARD * counts['forward'].get(name, 0)
            for name in counts['backward']}
    return {'weights': counts['weights'], 'masters': 0, 'gradients': GRADIENTS * counts['trained'],
            'optimizer': 2 * counts['trained'], 'features': 0, 'workspace': FIXED + BLOCK * counts['blocks'], **held}


def terms(recipe, setting):
    """The counts that the constants multiply: bytes, but for ``blocks``."""
    backward, forward, counts = {}, {}, parts(recipe)
    for name, tower, rows in towers(recipe):
        size = 4 * (getattr(setting, f'{name}_micro_batch') or samples(recipe)[name])
        inside = size * encoder(tower, recipe.model.lora.rank)[0].computed
        backward[name] = size * projections(recipe, rows, tower).computed
        if tower.train == 'frozen':
            forward[name] = inside
        else:
            backward[name] += inside
    batch = recipe.train.batch_size
    backward['loss'] = 4 * (scores(recipe, batch, batch, True) + fusion(recipe, batch)).computed
    deep = [recipe.model.image, recipe.model.text, recipe.model.fusion]
    return {'backward': backward, 'forward': forward, 'weights': 4 * sum(part.total for part in counts),
            'trained': 4 * sum(part.trained for part in counts),
            'blocks': sum(part.depth for part in deep if part is not None)}
