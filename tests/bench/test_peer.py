"""The comparison with a peer: its ratios and goals, and that the peer is the same network."""
import pytest

from hcma.bench.peer.rows import GROUPS, STEP, Row, compare, differences, rows_of, table
from hcma.bench.scaling import slope
from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model

ROW = Row('train step', STEP, STEP, 'time', 0.6)


def rounds(*pairs):
    return [{('ours', STEP): {'time': {'wall': ours, 'cpu': 1.0}}, ('peer', STEP): {'time': {'wall': peer, 'cpu': 2.0}}}
            for ours, peer in pairs]


def test_a_ratio_is_the_median_of_the_rounds_not_that_of_the_medians():
    found = compare(ROW, rounds((1.0, 2.0), (30.0, 20.0), (3.0, 4.0)), 'wall')
    assert found == {'ours': 3.0, 'peer': 4.0, 'ratio': 0.75, 'low': 0.5, 'high': 1.5}
    assert compare(ROW, rounds((1.0, 2.0)), 'cpu')['ratio'] == 0.5


def test_the_table_says_whether_the_goal_is_met():
    line = table([(ROW, compare(ROW, rounds((0.05, 0.1)), 'wall'))]).splitlines()[-1]
    assert line == '| train step | 50.0 ms | 100.0 ms | 0.50 | 0.50–0.50 | ≤ 0.60 | yes |'
    assert table([(ROW, compare(ROW, rounds((0.7, 1.0)), 'wall'))]).splitlines()[-1].endswith('| ≤ 0.60 | no |')


def test_losses_of_both_sides_are_compared_also_of_the_staged_step_with_the_peers_only_one():
    staged = 'step', 'staged'
    one = {('ours', STEP): {'same': {'loss': 1.5}}, ('ours', staged): {'same': {'loss': 1.25}},
           ('peer', STEP): {'same': {'loss': 1.0}}, ('ours', ('encode',)): {}}
    assert differences(one) == [('step fused: loss', 0.5), ('step staged: loss', 0.25)]


@pytest.mark.parametrize('preset', ['small', 'vit_b32'])
def test_every_group_has_rows_with_a_job_on_either_side(preset):
    assert all(row.ours and row.peer for group in GROUPS for row in rows_of(preset, group))


def test_the_slope_is_the_power():
    assert slope([1, 10, 100, 1000], [5.0, 2.0, 200.0, 20000.0]) == pytest.approx(2)


CLIP = {'image': {'stem': 'patchify', 'patch_size': 8, 'pool': 'class', 'directions': False, 'stem_channels': [],
                  'activation': 'quick_gelu'},
        'text': {'causal': True, 'pool': 'end', 'directions': False}}


@pytest.mark.parametrize('model, levels', [({}, ['sentence_global', 'word_patch']), (CLIP, ['sentence_global'])])
def test_the_same_network_in_torch_has_the_same_loss(make_recipe, make_batch, model, levels):
    torch = pytest.importorskip('torch')
    from hcma.bench.peer.torch_model import Model
    recipe = make_recipe(model=model, loss={'levels': levels})
    ours, batch = build_model(recipe, recipe.model.text.vocab_size), make_batch(recipe)
    theirs = Model(recipe, {parameter.name: parameter.asnumpy() for parameter in ours.get_parameters()})
    image, ids, length = (torch.from_numpy(column.asnumpy()) for column in batch[:3])
    loss = HierarchicalLoss(ours, [1.0] * len(levels))(*batch)[0]
    assert float(loss) == pytest.approx(float(theirs(image, ids.long(), length.long()).detach()), abs=1e-5)
