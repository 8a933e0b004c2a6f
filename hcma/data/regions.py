"""Boxes given with a picture, as the image tower reads them: a fixed number, in patches of what is seen.

Where a picture has fewer boxes than that, windows take the places that are left, so every place holds a region.
"""
import numpy as np

from hcma.models.windows import window_boxes

# A box of which less is seen, because the rest is outside of the crop, is not there: it would show something else.
SEEN = 0.5


class Regions:
    """The boxes of a recipe's ``model`` section, as a column or, where its regions are windows, as none.

    ``regions(boxes, view, height, width)`` takes boxes [x0, y0, x1, y1] as shares of a picture of ``height`` x
    ``width`` pixels and the ``View`` of it that is seen. It gives a tuple of nothing or of (R, 4) float32, left, top,
    right and bottom in patches, the first boxes that are seen before windows.
    """

    def __init__(self, model):
        self.wanted = model.regions == 'boxes'
        self.most, self.grid = model.max_boxes, model.image.grid
        self.windows = window_boxes(self.grid, model.region_sizes)
        self.none = (self._filled(np.empty((0, 4), np.float32)),) if self.wanted else ()

    def __call__(self, boxes, view, height, width):
        if not self.wanted or not boxes:
            return self.none
        return (self._filled(seen_boxes(boxes, view, height, width, self.grid)[:self.most]),)

    def _filled(self, boxes):
        """Windows taken evenly out of all, for the places that are left."""
        places = np.linspace(0, len(self.windows) - 1, self.most - len(boxes)).round().astype(int)
        return np.concatenate((boxes, self.windows[places])).astype(np.float32)


def seen_boxes(boxes, view, height, width, grid):
    """What a view that is a ``grid`` (rows, columns) of patches shows of boxes, (N, 4) in patches; N counts those seen.
    """
    ends = grid[::-1]  # x before y
    corners_N22 = np.array(boxes, np.float64).reshape(-1, 2, 2) * (width, height)
    corners_N22 = (corners_N22 - (view.left, view.top)) * ends / (view.width, view.height)
    if view.mirrored:
        corners_N22[..., 0] = ends[0] - corners_N22[:, ::-1, 0]
    seen_N22 = corners_N22.clip(0, ends)
    enough = _areas(seen_N22) >= SEEN * _areas(corners_N22)
    return seen_N22[enough].reshape(-1, 4)


def _areas(corners_N22):
    return (corners_N22[:, 1] - corners_N22[:, 0]).prod(1)
