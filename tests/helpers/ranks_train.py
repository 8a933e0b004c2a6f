"""A run on ranks that is spoilt: ``msrun … ranks_train.py RECIPE RUN [AT NAME FACTOR]…``, each as of ``Poison``."""
import sys

from hcma import cli
from hcma.recipe_io import load_recipe
from hcma.training.trainer import train
from helpers.poison import Poison


def main():
    """Train, with a ``Poison`` for every three arguments."""
    recipe, run, *spoilt = sys.argv[1:]
    spoilt = zip(spoilt[::3], spoilt[1::3], spoilt[2::3])
    train(load_recipe(recipe), run, callbacks=[Poison(int(at), name, float(factor)) for at, name, factor in spoilt])


if __name__ == '__main__':
    cli.run(main)
