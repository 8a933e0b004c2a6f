"""Word-to-patch heat laid over a picture."""
import matplotlib
import numpy as np
from PIL import Image

PANEL_SIDE = 200  # px, about: small pictures are magnified by a whole factor
COLOURS = matplotlib.colormaps['inferno']


def overlay(picture, heat, low, high):
    """The picture in grey under the colours of ``heat``.

    ``heat``: grid of cosines, rows from top to bottom, upsampled bilinearly to the picture; ``low`` and ``high`` are
    the cosines of the darkest and the brightest colour. The hotter a place, the more its colour covers the grey.
    """
    canvas = panel(picture)
    heat_HW = upsample(relative(heat, low, high), canvas.size)[..., None]
    # Grey, because the picture's own colours would be read as heat.
    grey_HW1 = np.asarray(canvas.convert('L'), dtype=np.float32)[..., None] / 255
    cover_HW1 = 0.45 + 0.3 * heat_HW
    mixed_HW3 = (1 - cover_HW1) * grey_HW1 + cover_HW1 * COLOURS(heat_HW[..., 0])[..., :3]
    return Image.fromarray(np.rint(mixed_HW3 * 255).astype(np.uint8))


def panel(picture):
    """The picture at about ``PANEL_SIDE``: magnified pixel by pixel, or shrunk smoothly."""
    side = max(picture.size)
    if side <= PANEL_SIDE // 2:
        factor = PANEL_SIDE // side
        return picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    smaller = picture.copy()
    smaller.thumbnail((PANEL_SIDE, PANEL_SIDE), Image.Resampling.LANCZOS)
    return smaller


def grid(heat):
    """``heat`` as a float array ``(rows, columns)``, or ``None`` when it is not a grid of numbers."""
    try:
        array = np.asarray(heat, dtype=np.float32)
    except (TypeError, ValueError):
        return None
    return array if array.ndim == 2 and array.size else None


def heat_range(grids):
    """The lowest and highest finite value of several grids; ``(0, 0)`` when there is none."""
    values = np.concatenate([heat[np.isfinite(heat)] for heat in grids]) if grids else np.zeros(0)
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def relative(heat, low, high):
    """``heat`` mapped from ``[low, high]`` to ``[0, 1]``; what is not a number is cold."""
    if high <= low:
        return np.zeros_like(heat)
    return np.clip((np.nan_to_num(heat, nan=low) - low) / (high - low), 0, 1)


def upsample(heat, size):
    """A grid stretched bilinearly to ``size`` (width, height); the middle of a cell is the middle of its patch."""
    return np.clip(np.asarray(Image.fromarray(heat).resize(size, Image.Resampling.BILINEAR)), 0, 1)


def colour_stops(count=7):
    """The colours of the scale from cold to hot, as CSS writes them."""
    return ','.join(matplotlib.colors.to_hex(COLOURS(share)) for share in np.linspace(0, 1, count))
