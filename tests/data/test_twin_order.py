"""An epoch's order keeps twins in one batch, side by side, and sees no row twice."""
import numpy as np
import pytest

from hcma.data.twins import twin_groups, twin_order


def groups_of(*sizes):
    """Groups of these sizes over the rows 0, 1, ..."""
    return np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


def epoch(groups, batch, seed=0):
    rows = sum(map(len, groups))
    return twin_order(groups, rows // batch, batch, np.random.default_rng(seed)).reshape(-1, batch)


def test_groups_are_the_rows_of_each_id():
    groups = twin_groups(np.array([7, 1, 9, 7, 3, 1, 7]))
    assert sorted(map(list, groups)) == [[0, 3, 6], [1, 5], [2], [4]]
    assert [list(group) for group in twin_groups(np.array([4]))] == [[0]]


@pytest.mark.parametrize('sizes, batch', [((2,) * 20, 8), ((2,) * 15 + (1,) * 14, 7), ((3, 2, 1, 1, 1, 1) * 9, 6),
                                          ((1,) * 9, 2)], ids=['pairs', 'odd batch', 'triples', 'singles'])
@pytest.mark.parametrize('seed', range(3))
def test_every_group_lies_whole_and_side_by_side_in_one_batch(sizes, batch, seed):
    groups = groups_of(*sizes)
    order = epoch(groups, batch, seed)
    assert len(set(order.flat)) == order.size == sum(sizes) // batch * batch
    flat = list(order.flat)
    for rows in groups:
        places = sorted(flat.index(row) for row in rows if row in flat)
        if len(places) == len(rows):
            assert places[-1] // batch == places[0] // batch and places == list(range(places[0], places[-1] + 1))
        else:
            assert not places, 'only whole groups are left out where small ones fill every batch'


def test_pairs_are_on_one_device_where_the_devices_take_an_even_number_of_rows():
    groups = groups_of(*(2,) * 30, *(1,) * 31)
    partner = {row: other for group in groups if len(group) == 2 for row, other in (group, group[::-1])}
    for share in epoch(groups, 12).reshape(-1, 4):
        assert all(partner.get(row, row) in share for row in share)


def test_where_small_groups_run_out_a_group_is_cut_and_its_rest_comes_later():
    order = epoch(groups_of(2, 2, 2), 3)
    assert sorted(order.flat) == list(range(6))
    assert all({0, 1} <= set(rows) or {2, 3} <= set(rows) or {4, 5} <= set(rows) for rows in order)


def test_a_group_larger_than_a_batch_fills_batches():
    order = epoch(groups_of(11, *(1,) * 9), 4)
    assert len(set(order.flat)) == 20
    from_large = [int(np.sum(rows < 11)) for rows in order]
    assert sorted(from_large, reverse=True)[:3] == [4, 4, 3]


def test_epochs_differ_and_the_same_generator_gives_the_same_order():
    groups = groups_of(*(2,) * 40)
    assert np.array_equal(epoch(groups, 8, 1), epoch(groups, 8, 1))
    assert not np.array_equal(epoch(groups, 8, 1), epoch(groups, 8, 2))
    seconds = {tuple(sorted(rows)) for seed in range(4) for rows in epoch(groups, 8, seed)}
    assert len(seconds) == 40, 'batches are made of other pairs each time'
    turned = [one > other for one, other in epoch(groups, 8).reshape(-1, 2)]
    assert 0 < sum(turned) < 40, 'neither of a pair always comes first'


def test_fewer_rows_than_a_batch_give_no_batch():
    assert epoch(groups_of(2, 1), 4).shape == (0, 4)
