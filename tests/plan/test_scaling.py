"""What ranks exchange, on paper, is what the formulae of docs/distributed.md say; memory falls with their number."""
import pytest

from hcma.plan.memory import needs, setting_of
from hcma.plan.parameters import parts
from hcma.plan.scaling import Machine, step_seconds, volumes
from hcma.recipe_io import parse_recipe


@pytest.fixture(scope='module')
def recipe():
    return parse_recipe({'model': {'preset': 'vit_b32', 'fusion': {'heads': 8}}, 'train': {'epochs': 1,
                                                                                           'batch_size': 4096}}, 'test')


def test_volumes_are_the_formulae(recipe):
    found = {name: bytes_ for name, bytes_, _ in volumes(recipe, 8)}
    features = 512 + 49 * 256 + 50 * 768 + 78 * 512 + 77
    assert found['features'] == found['their gradients'] == 4 * 4096 * features * 7 / 8
    assert found['gradients'] == 8 * sum(part.trained for part in parts(recipe)) * 7 / 8
    assert found['log-sums and draws'] == 4 * 4096 * (2 + 2) * 7


def test_one_device_computes_all_of_the_time_and_a_slower_network_takes_its_share(recipe):
    slow, fast = (Machine(1e14, inside, inside, 0.0) for inside in (1e9, 2e9))
    assert step_seconds(recipe, 1, slow)[1] == 0
    assert step_seconds(recipe, 8, slow)[0] == pytest.approx(step_seconds(recipe, 1, slow)[0] / 8)
    assert step_seconds(recipe, 8, slow)[1] == pytest.approx(2 * step_seconds(recipe, 8, fast)[1])


def test_memory_falls_with_the_devices_that_share_a_batch(recipe):
    one, many = (needs(recipe, setting_of(recipe, devices=devices)) for devices in (1, 8))
    assert many.image == one.image / 8 and many.text == one.text / 8
    assert many.loss < one.loss / 7 and many.weights == one.weights
