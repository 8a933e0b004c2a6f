"""Paints the things of a scene: at 128 pixels with Pillow, then shrunk to 48."""
import math

import numpy as np
from PIL import Image, ImageDraw

SIDE = 48  # pixels of the finished picture
CANVAS = 128  # pixels of the painted one
UNIT = CANVAS / 64

RGB = {'red': (215, 35, 35), 'green': (40, 160, 60), 'blue': (40, 70, 220), 'yellow': (240, 215, 40),
       'purple': (140, 50, 170), 'black': (25, 25, 25)}
SKIN = (235, 190, 150)
PATTERN = {'yellow': (165, 135, 0)}  # white would not show on yellow
WHITE = (250, 250, 250)


def draw_background(rng):
    """A light colour."""
    return tuple(rng.randint(195, 250) for _ in range(3))


def render(things, background, rng):
    """The scene as an RGB picture of SIDE x SIDE pixels, with slight grey noise."""
    canvas = Image.new('RGB', (CANVAS, CANVAS), background)
    for thing in things:
        _paint(ImageDraw.Draw(canvas), thing, RGB[thing.colour])
        if thing.texture != 'plain':
            mask = Image.new('L', canvas.size, 0)
            _paint(ImageDraw.Draw(mask), thing._replace(r=0.84 * thing.r), 255)  # a rim keeps the outline whole
            canvas.paste(_pattern(thing), mask=mask)
    pixels = np.asarray(canvas.resize((SIDE, SIDE), Image.BOX), np.int16)
    noise = np.frombuffer(rng.randbytes(SIDE * SIDE), np.uint8).reshape(SIDE, SIDE, 1) % 17
    return Image.fromarray(np.clip(pixels + noise.astype(np.int16) - 8, 0, 255).astype(np.uint8))


def _paint(draw, thing, fill):
    PAINT[thing.pose or thing.shape](_Brush(draw, thing), fill)


class _Brush:
    """Draws in the thing's own coordinates: its centre is (0, 0), its half extent 1."""

    def __init__(self, draw, thing):
        self.draw, self.x, self.y, self.r = draw, thing.x * UNIT, thing.y * UNIT, thing.r * UNIT

    def points(self, *points):
        return [(self.x + x * self.r, self.y + y * self.r) for x, y in points]

    def box(self, left, top, right, bottom, fill):
        self.draw.rectangle(self.points((left, top), (right, bottom)), fill=fill)

    def disc(self, x, y, radius, fill):
        self.draw.ellipse(self.points((x - radius, y - radius), (x + radius, y + radius)), fill=fill)

    def polygon(self, *points, fill):
        self.draw.polygon(self.points(*points), fill=fill)

    def line(self, start, end, width, fill):
        self.draw.line(self.points(start, end), fill=fill, width=max(2, round(width * self.r)))


def _circle(brush, fill):
    brush.disc(0, 0, 1, fill)


def _square(brush, fill):
    brush.box(-0.9, -0.9, 0.9, 0.9, fill)


def _triangle(brush, fill):
    brush.polygon((0, -1), (-1, 0.9), (1, 0.9), fill=fill)


def _cross(brush, fill):
    brush.box(-0.35, -1, 0.35, 1, fill)
    brush.box(-1, -0.35, 1, 0.35, fill)


def _frame(brush, fill):
    thickness = 3 * UNIT / brush.r
    inner = 1 - thickness
    brush.box(-1, -1, 1, -inner, fill)
    brush.box(-1, inner, 1, 1, fill)
    brush.box(-1, -1, -inner, 1, fill)
    brush.box(inner, -1, 1, 1, fill)


def _sofa(brush, fill):
    back = tuple(round(0.7 * value) for value in fill) if max(fill) > 60 else (70, 70, 70)
    brush.box(-0.9, -0.6, 0.9, 0.3, back)
    brush.box(-1, 0.1, 1, 0.5, fill)
    for side in (-1, 0.75):
        brush.box(side, -0.15, side + 0.25, 0.5, fill)
    for side in (-0.9, 0.75):
        brush.box(side, 0.5, side + 0.15, 0.6, fill)


def _standing(brush, fill):
    for side in (-1, 1):
        brush.line((0.35 * side, 1.1), (0.1 * side, 0.3), 0.35, fill)
    brush.box(-0.35, -0.5, 0.35, 0.35, fill)
    brush.disc(0, -0.85, 0.35, SKIN)


def _sitting(brush, fill):
    brush.box(-0.4, -0.3, 0.3, 0.6, fill)
    brush.box(0, 0.28, 0.9, 0.62, fill)
    brush.box(0.6, 0.28, 0.95, 1.1, fill)
    brush.disc(-0.05, -0.65, 0.35, SKIN)


def _lying(brush, fill):
    brush.box(-0.5, 0.2, 0.35, 0.9, fill)
    brush.box(0.3, 0.35, 1.2, 0.75, fill)
    brush.disc(-0.85, 0.55, 0.35, SKIN)


PAINT = {'circle': _circle, 'square': _square, 'triangle': _triangle, 'cross': _cross, 'frame': _frame,
         'sofa': _sofa, 'standing': _standing, 'sitting': _sitting, 'lying': _lying}


def _pattern(thing):
    """A canvas full of stripes, or of dots, in the thing's colour."""
    ground, mark = RGB[thing.colour], PATTERN.get(thing.colour, WHITE)
    canvas = Image.new('RGB', (CANVAS, CANVAS), ground)
    draw = ImageDraw.Draw(canvas)
    if thing.texture == 'striped':
        for top in range(round(thing.y * UNIT) % 12 - 12, CANVAS, 12):
            draw.rectangle([0, top, CANVAS, top + 4], fill=mark)
        return canvas
    step = 12
    for row in range(math.ceil(CANVAS / step) + 1):
        for column in range(math.ceil(CANVAS / step) + 1):
            x, y = column * step + row % 2 * step / 2 + thing.x * UNIT % step - step, row * step
            draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=mark)
    return canvas
