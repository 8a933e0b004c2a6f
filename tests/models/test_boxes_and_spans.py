"""Regions that are boxes and phrases that are spans are weighted means of patches and words."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.models.hcma import build_model
from hcma.models.windows import Boxes, Spans, Windows, patch_windows, window_boxes

RNG = np.random.default_rng(0)
OWN = {'loss': {'levels': ['sentence_global', 'phrase_region']}}


def float32(x):
    return Tensor(x, ms.float32)


def mean_under(patch_HWD, box):
    """The mean of a box in float64, by cutting every patch into 64 x 64 points and averaging those inside."""
    fine = 64
    down, across = ((np.arange(side * fine) + 0.5) / fine for side in patch_HWD.shape[:2])
    inside = (down >= box[1])[:, None] & (down < box[3])[:, None] & (across >= box[0]) & (across < box[2])
    return patch_HWD.repeat(fine, 0).repeat(fine, 1)[inside].mean(0)


def test_a_box_is_the_mean_of_what_it_covers():
    grid, width = (5, 6), 3
    patch = RNG.normal(size=(2, *grid, width))
    low = RNG.integers(0, 4 * 64, (2, 6, 2))
    boxes = np.concatenate((low, low + RNG.integers(1, 64, (2, 6, 2))), 2) / 64  # over one patch, two or four
    pooled = Boxes(grid)(float32(patch.reshape(2, -1, width)), float32(boxes)).asnumpy()
    expected = [[mean_under(patch[row], box) for box in boxes[row]] for row in range(2)]
    np.testing.assert_allclose(pooled, expected, atol=1e-5)


@pytest.mark.parametrize('grid, sizes', [((2, 2), (2,)), ((6, 6), (2, 3)), ((5, 7), (3, 5))])
def test_windows_given_as_boxes_are_the_windows(grid, sizes):
    patch = float32(RNG.normal(size=(2, grid[0] * grid[1], 4)))
    boxes = float32(np.stack([window_boxes(grid, sizes)] * 2))
    expected = Windows(patch_windows(grid, sizes))(patch)
    np.testing.assert_allclose(Boxes(grid)(patch, boxes).asnumpy(), expected.asnumpy(), atol=1e-6)


def test_a_span_is_the_mean_of_its_words_and_no_span_is_absent():
    word, spans = RNG.normal(size=(2, 6, 3)), np.array([[[1, 3], [2, 5], [4, 4]], [[0, 0], [3, 4], [1, 6]]], np.int32)
    cell = Spans(6)
    expected = [[row[first:end].mean(0) if end > first else np.zeros(3) for first, end in places]
                for row, places in zip(word, spans)]
    np.testing.assert_allclose(cell(float32(word), Tensor(spans)).asnumpy(), expected, atol=1e-6)
    assert cell.present(Tensor(spans)).asnumpy().tolist() == [[1, 1, 0], [0, 1, 1]]


def test_spans_of_all_runs_and_boxes_of_all_windows_give_the_scores_without_them(make_recipe, make_batch, vocabulary):
    plain = build_model(make_recipe(**OWN), vocabulary)
    windows = window_boxes((4, 4), (2, 3))
    runs = [[first, first + 3] for first in range(1, 5)]
    given = build_model(make_recipe(model={'regions': 'boxes', 'phrases': 'chunks', 'max_boxes': len(windows),
                                           'max_chunks': len(runs)}, **OWN), vocabulary)
    image, ids, _, _ = make_batch(make_recipe(), 3)
    lengths = Tensor(np.array([8, 8, 5], np.int32))
    spans = np.array([runs, runs, [[1, 4], [0, 0], [0, 0], [0, 0]]], np.int32)
    text = given.text_tower(ids, lengths, Tensor(spans))
    scores = given.scores(text, given.image_tower(image, float32(np.stack([windows] * 3))))
    for own, expected in zip(scores, plain.scores(plain.text_tower(ids, lengths), plain.image_tower(image))):
        np.testing.assert_allclose(own.asnumpy(), expected.asnumpy(), atol=1e-5)
