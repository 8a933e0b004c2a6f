"""A plan as text for a terminal, and as a dict for JSON."""
from dataclasses import asdict, replace

from hcma.columns import align
from hcma.plan.advice import options
from hcma.plan.memory import GIB, activations, needs, usable
from hcma.plan.parameters import parts

MEANINGS = {'weights': 'weights', 'masters': 'float32 masters', 'gradients': 'gradients', 'optimizer': 'moments',
            'image': 'image activations', 'text': 'text activations', 'features': 'features, gradients',
            'loss': 'levels and matching', 'workspace': 'workspace'}


def plan(recipe, setting, memory):
    """All that ``tools/plan.py`` says, as a dict that JSON can hold; ``memory`` in bytes."""
    found = needs(recipe, setting)
    counts = parts(recipe)
    enough = usable(setting, memory)
    fits = found.fits(enough)
    return {'name': recipe.name, 'vocabulary': recipe.model.text.vocab_size, 'batch_size': recipe.train.batch_size,
            'parts': [asdict(part) for part in counts], 'parameters': sum(part.total for part in counts),
            'trained': sum(part.trained for part in counts), 'precision': recipe.precision.types(),
            'setting': asdict(setting), 'memory': memory,
            'usable': enough, 'bytes': {**asdict(found), 'total': found.total}, 'fits': fits,
            'activations': _activations(recipe, setting), 'devices': _devices(recipe, setting),
            'options': [] if fits else [{'changes': option.changes, 'total': option.needs.total}
                                        for option in options(recipe, setting, memory)]}


def _activations(recipe, setting):
    """Bytes of the encoders by micro-batch, with and without recomputing every block."""
    model = recipe.model
    towers = {name: getattr(model, name).model_copy(update={'recompute': 'blocks'}) for name in ('image', 'text')}
    again = recipe.model_copy(update={'model': model.model_copy(update=towers)})
    rows, size = [], recipe.train.batch_size // setting.devices
    while size >= 1 and len(rows) < 4:
        cut = replace(setting, image_micro_batch=size, text_micro_batch=size)
        rows.append({'micro_batch': size, 'kept': activations(recipe, cut, recompute=False),
                     'recomputed': activations(again, cut)})
        size //= 4
    return rows


def _devices(recipe, setting):
    """Bytes on each of 1, 2, 4, 8 … devices that can share the batch, up to what is planned for."""
    counts = {2 ** power for power in range(12) if 2 ** power <= max(8, setting.devices)} | {setting.devices}
    return {str(count): needs(recipe, replace(setting, devices=count)).total
            for count in sorted(counts) if recipe.train.batch_size % count == 0}


def plan_table(result):
    """The dict of ``plan`` as text."""
    setting, size = result['setting'], result['batch_size']
    held = [[MEANINGS.get(name, name), _gib(value)] for name, value in result['bytes'].items() if value]
    lines = [f'{result["name"]}: {result["parameters"]:,} parameters, {result["trained"]:,} trained '
             f'(a vocabulary of {result["vocabulary"]:,} tokens, the most that the recipe allows)', '',
             align([['part', 'parameters', 'trained'],
                    *([part['name'], f'{part["total"]:,}', f'{part["trained"]:,}'] for part in result['parts'])]), '',
             f'each of {setting["devices"]} × {setting["device"]}, a batch of {size} over all, computing in '
             f'{_types(result)}',
             align([['what', 'GiB'], *held]), '']
    if 0 in (result['bytes']['image'], result['bytes']['text']):
        lines += ['in micro-batches the encoders take turns: the one that holds more counts', '']
    if setting['device'] != 'cpu':
        rows = [['micro-batch', 'image', 'recomputed', 'text', 'recomputed']]
        rows += [[str(row['micro_batch']), *(_gib(row[how][name]) for name in ('image', 'text')
                                             for how in ('kept', 'recomputed'))] for row in result['activations']]
        lines += ['activations in GiB', align(rows), '',
                  align([['devices', *result['devices']], ['GiB on each', *map(_gib, result['devices'].values())]]), '']
    lines.append(f'{"fits" if result["fits"] else "does not fit"}: {_gib(result["bytes"]["total"])} of the '
                 f'{_gib(result["usable"])} GiB that {_gib(result["memory"])} leave beside the runtime')
    if setting['device'] != 'cpu':
        lines.append('counted, not measured: hcma was never run on such a device (docs/planning.md)')
    if not result['fits']:
        lines += ['', 'it would fit with' if result['options'] else 'nothing makes it fit: plan a smaller model']
        lines += [f'  {" ".join(option["changes"])}: {_gib(option["total"])} GiB' for option in result['options']]
    return '\n'.join(lines)


def _types(result):
    if result['setting']['compute'] != 'recipe':
        return result['setting']['compute']
    types = result['precision']
    return 'fp32' if set(types.values()) == {'fp32'} else ', '.join(f'{name} ({part})' for part, name in types.items())


def _gib(value):
    return f'{value / GIB:.2f}' if value >= GIB / 10 else f'{value / GIB:.4f}'
