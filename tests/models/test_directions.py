"""Heads start looking in one direction each, and what a bias says depends on the relative position alone."""
import numpy as np
from mindspore import Tensor

from hcma.models.directions import AWAY, patch_directions, word_directions


def test_image_heads_start_right_left_down_and_up():
    bias = patch_directions((3, 3), 4, has_class=False)().asnumpy()[0]
    centre, right, left, down, up = 4, 5, 3, 7, 1
    for head, ahead, behind in ((0, right, left), (1, left, right), (2, down, up), (3, up, down)):
        assert bias[head, centre, ahead] == 0
        assert bias[head, centre, behind] == AWAY


def test_a_picture_that_is_wider_than_high_has_the_directions_of_the_square_around_it():
    square, wide = (patch_directions(grid, 4, has_class=False)().asnumpy()[0] for grid in ((4, 4), (2, 4)))
    assert np.array_equal(wide, square[:, :8, :8])


def test_equal_displacements_share_one_bias():
    directions = patch_directions((3, 3), 4, has_class=False)
    table = np.random.default_rng(0).normal(size=directions.table.shape)
    directions.table.set_data(Tensor(table.astype(np.float32)))
    bias = directions().asnumpy()[0]
    assert np.array_equal(bias[:, 0, 4], bias[:, 4, 8])
    assert len(np.unique(bias[0])) == 25


def test_the_class_token_has_a_bias_of_its_own():
    bias = patch_directions((2, 3), 4, has_class=True)().asnumpy()[0]
    assert bias.shape == (4, 7, 7)
    assert not bias[:, 0].any() and not bias[:, :, 0].any()
    assert np.array_equal(bias[:, 1:, 1:], patch_directions((2, 3), 4, has_class=False)().asnumpy()[0])


def test_word_heads_start_forward_backward_local_and_free_in_turn():
    bias = word_directions(5, 5)().asnumpy()[0]
    forward, backward, local, free, fifth = bias
    assert forward[2, 3] > forward[2, 4] > forward[2, 1] == AWAY
    assert np.allclose(backward, forward.T)
    assert np.allclose(local, -0.7 * np.abs(np.subtract.outer(np.arange(5), np.arange(5))))
    assert not free.any() and np.array_equal(fifth, forward)


def test_a_shorter_text_has_the_same_biases():
    assert np.array_equal(word_directions(7, 4)().asnumpy()[..., :4, :4], word_directions(4, 4)().asnumpy())


def test_the_bias_of_chosen_positions_is_that_part_of_the_whole():
    directions, kept = patch_directions((3, 3), 4, has_class=False), np.array([[0, 4, 8], [1, 2, 6]])
    whole = directions().asnumpy()[0]
    chosen = Tensor((kept[..., None] == np.arange(9)).astype(np.float32))
    expected = [whole[:, row][:, :, row] for row in kept]
    np.testing.assert_allclose(directions.of(chosen).asnumpy(), expected, rtol=1e-6)
