"""Which types the operations of a compiled training step have: ``compiled_types.py``, with a recipe's YAML on stdin.

Compiles the step without running our own kernels, reads the graph that MindSpore writes after its last check, and
prints a JSON list of [operation, types of its inputs and outputs, where it comes from].
"""
import json
import os
import re
import sys
import tempfile
from pathlib import Path

OPERATION = re.compile(r'= (?:PrimFunc_)?(\w+)\(')
TYPE = re.compile(r'Tensor\[(\w+)\]')


def operations(text):
    """Every operation of a graph in MindSpore's text form; the line after it has types, the next its scope."""
    lines = text.splitlines()
    for line, types, scope in zip(lines, lines[1:], lines[2:]):
        found = OPERATION.search(line)
        if found and types.strip().startswith(':'):
            yield found[1], TYPE.findall(types), scope.partition('scope: (')[2].rstrip(')')


def compile_step(values):
    """Train one step of the recipe ``values`` on a random batch."""
    import mindspore as ms

    from hcma import backend
    from hcma.bench.memory import random_batch
    from hcma.recipe_io import parse_recipe
    from hcma.training.trainer import build_step
    backend.set_up('graph')
    recipe = parse_recipe(values, 'stdin')
    build_step(recipe, recipe.model.text.vocab_size, 10)(*map(ms.Tensor, random_batch(recipe, 0)))


if __name__ == '__main__':
    import yaml
    given = yaml.safe_load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(MS_DEV_SAVE_GRAPHS='1', MS_DEV_SAVE_GRAPHS_PATH=folder, MS_DEV_DUMP_IR_PASSES='validate',
                          HCMA_KERNELS='0', GLOG_v='3')
        compile_step(given)
        (graph,) = Path(folder).glob('*_validate_*.ir')
        print(json.dumps(list(operations(graph.read_text()))))
