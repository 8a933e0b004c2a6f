"""Claims about what the report draws: curves that are thinned and smoothed, heat maps, words that differ."""
import numpy as np
import pytest
from PIL import Image

from hcma.report import curves, heatmaps
from hcma.report.examples import mark_difference
from hcma.report.markup import document, node


def test_thinning_keeps_every_spike():
    values = np.sin(np.arange(100_000) / 700.0)
    values[[12_345, 77_777]] = 50, -50
    kept = curves.thin(values)
    assert len(kept) <= curves.MOST_POINTS and {12_345, 77_777} <= set(kept.tolist())
    assert np.all(np.diff(kept) > 0)


def test_smoothing_is_the_mean_of_the_neighbours():
    values = np.random.default_rng(1).normal(size=50)
    expected = [values[max(i - 3, 0):i + 4].mean() for i in range(50)]
    np.testing.assert_allclose(curves.smooth(values, 7), expected)
    np.testing.assert_allclose(curves.smooth(values, 1), values)


def test_heat_is_brightest_over_its_patch():
    heat = np.zeros((4, 4), dtype=np.float32)
    heat[1, 3] = 1
    picture = Image.new('RGB', (48, 48), 'gray')
    bright = np.asarray(heatmaps.overlay(picture, heat, 0.0, 1.0).convert('L'), dtype=float)
    row, column = np.unravel_index(bright.argmax(), bright.shape)
    assert (row * 4 // bright.shape[0], column * 4 // bright.shape[1]) == (1, 3)


def test_a_heat_map_without_differences_is_drawn_cold():
    heat = np.full((2, 2), 0.3, dtype=np.float32)
    assert heatmaps.heat_range([heat]) == (heat.max(), heat.max())
    assert not heatmaps.relative(heat, *heatmaps.heat_range([heat])).any()


@pytest.mark.parametrize('texts, marked', [
    (('a cat sits here', 'a cat lies here'), ('a cat <mark>sits</mark> here', 'a cat <mark>lies</mark> here')),
    (('黑狗坐在沙发上', '黑狗躺在沙发上'), ('黑狗<mark>坐</mark>在沙发上', '黑狗<mark>躺</mark>在沙发上'))])
def test_the_words_that_differ_are_marked(texts, marked):
    for children, expected in zip(mark_difference(*texts), marked):
        assert document(node('p', children)) == f'<!doctype html>\n<p>{expected}</p>\n'
