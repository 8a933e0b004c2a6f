"""Mixed precision against float32: the same training in both, over several seeds.

    recipes/mixed_precision.py [--out DIR] [--quick] [--precision fp16]

Trains word-patch alignment with negatives and twins, which learns its scenes all but completely, in fp32 and with
images and texts in ``--precision`` (bf16 is for Ascend). Measures fine-grained choices, retrieval, the time of a step,
and the peak memory of a process that trains random batches; for a card, ``hcma.plan`` counts activations and the
largest batch in 64 GiB. On CPU 16 bits are slower and save nothing: what can be shown there is that the accuracy is
kept. Runs that are done are kept: start again to go on. Writes mixed_precision.json, .md, .png and losses.png into DIR.
"""
import argparse
import sys
from pathlib import Path

from hcma import cli
from hcma.bench.scenes import TWINNED, draw_and_pack
from hcma.processes import run_all
from hcma.recipe_io import load_recipe

RECIPE = Path(__file__).parent / 'configs' / 'alignment.yaml'
VARIANT = ['loss.levels=[sentence_global, word_patch]', 'data.negatives=data', 'data.twins=true']
FULL = {'seeds': 3, 'epochs': 18, 'scenes': {'train': 12000, 'val': 500, 'test': 1000}}
QUICK = {'seeds': 1, 'epochs': 2, 'scenes': {'train': 3000, 'val': 100, 'test': 300}}


def main():
    """Train what is not trained yet, measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/mixed_precision', metavar='DIR', help='default: %(default)s')
    parser.add_argument('--quick', action='store_true', help='one seed, few scenes, two epochs')
    parser.add_argument('--precision', choices=['fp16', 'bf16'], default='fp16', help='default: %(default)s')
    parser.add_argument('--only', nargs=3, metavar=('TYPE', 'SEED', 'EPOCHS'), help='one run, on data that is there')
    arguments = parser.parse_args()
    out = Path(arguments.out)
    if arguments.only:
        kind, seed, epochs = arguments.only
        return run(out, kind, int(seed), int(epochs))
    plan = QUICK if arguments.quick else FULL
    kinds, seeds = ('fp32', arguments.precision), range(plan['seeds'])
    draw_and_pack(out, **plan['scenes'], **TWINNED)
    train_all(out, [(kind, seed, plan['epochs']) for seed in seeds for kind in kinds])

    from hcma.bench.mixed import draw_losses, memory_table
    from hcma.bench.variants import write_results
    runs = {kind: [out / f'{kind}_{seed}' for seed in seeds] for kind in kinds}
    write_results(out, runs, 'mixed_precision')
    draw_losses(runs, out / 'losses.png')
    table = memory_table(arguments.precision)
    with open(out / 'mixed_precision.md', 'a', encoding='utf-8') as file:
        file.write(f'\n{table}\n')
    print(f'\n{table}\n\n{out / "losses.png"}')
    return 0


def train_all(out, jobs):
    """Run the jobs (type, seed, epochs) that are not done."""
    run_all([(f'{job[0]}, seed {job[1]}, {job[2]} epochs',
              [sys.executable, __file__, '--out', str(out), '--only', *map(str, job)],
              out / f'{job[0]}_{job[1]}.log') for job in jobs if not (out / f'{job[0]}_{job[1]}' / 'done').exists()])


def run(out, kind, seed, epochs):
    """Train and evaluate one run; returns an exit code."""
    from hcma.evaluation.tasks import Evaluation
    from hcma.training.run_folder import update_metrics
    from hcma.training.trainer import train
    run_dir = out / f'{kind}_{seed}'
    recipe = load_recipe(RECIPE, [f'name={kind}', f'seed={seed}', f'train.epochs={epochs}',
                                  f'data.train={out / "data" / "train"}', f'precision.image={kind}',
                                  f'precision.text={kind}', *VARIANT])
    if not train(recipe, run_dir, resume=True):
        return 130
    evaluation = Evaluation(run_dir)
    evaluation.fit_weights(out / 'scenes' / 'choices_val.jsonl')
    update_metrics(run_dir, choice=evaluation.choice(out / 'scenes' / 'choices_test.jsonl'),
                   retrieval=evaluation.retrieval(out / 'data' / 'test'))
    (run_dir / 'done').touch()
    return 0


if __name__ == '__main__':
    cli.run(main)
