"""A trained model in a few lines of Python: ``hcma.load(RUN)``."""
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hcma import cli
from hcma.data.images import ImageRejected, decode_rgb, to_rgb
from hcma.errors import InputError
from hcma.evaluation.examples import word_cosines, word_heats
from hcma.evaluation.features import padded_block
from hcma.evaluation.tasks import Evaluation
from hcma.report.fonts import font_of
from hcma.report.heatmaps import heat_range, overlay

LINE, COLUMNS = 20, 6  # px, for the word under each map; maps in a row


class Aligned:
    """What a run learnt. Images are paths or PIL pictures, texts are strings; both come in lists."""

    def __init__(self, run):
        cli.prepare_process()
        evaluation = Evaluation(run)
        self.encoder, self.decoder = evaluation.encoder, evaluation.decoder
        self.weights = evaluation.weightings['weighted'][:len(self.encoder.levels)]

    def encode_image(self, images):
        """Normalised global features (N, E) float32."""
        return self._images(images)[0]

    def encode_text(self, texts):
        """Normalised sentence features (N, E) float32."""
        return self.encoder.texts(list(texts))[0]

    def score(self, images, texts):
        """How well each text fits each image, (texts, images): the levels' weighted sum, without the matching head."""
        text, image = self.encoder.texts(list(texts)), self._images(images)
        block = self.encoder.score_block(padded_block(text, 0, len(text[0])), padded_block(image, 0, len(image[0])))
        return np.tensordot(self.weights, block, 1)

    def explain(self, image, text):
        """A picture with a map for each word, six in a row: where it finds its patches; the scale is that of the whole
        text.

        Raises ``InputError`` for a model without the level word_patch.
        """
        if 'word_patch' not in self.encoder.levels:
            raise InputError('explain: this run has no level word_patch; train one with it in loss.levels')
        picture = self._picture(image)
        cosine_1LP = word_cosines(self.encoder, self.encoder.texts([text]), self.encoder.images([picture], 1), 1)
        words = word_heats(self.encoder, text, cosine_1LP[0])
        if not words:
            raise InputError(f'explain: {text!r} has no words')
        low, high = heat_range([heat for _, heat in words])
        return _sheet([(word, overlay(Image.fromarray(picture), heat, low, high)) for word, heat in words])

    def _images(self, images):
        images = list(images)
        return self.encoder.images((self._picture(image) for image in images), len(images))

    def _picture(self, image):
        if isinstance(image, Image.Image):
            return self.decoder.whole(np.asarray(to_rgb(image)))
        try:
            with open(image, 'rb') as file:
                return self.decoder.whole(np.asarray(decode_rgb(file.read())))
        except (OSError, ImageRejected) as error:
            raise InputError(f'{image}: cannot be used ({error}); give another picture') from None


def _sheet(maps):
    width, height = maps[0][1].size
    columns, height = min(COLUMNS, len(maps)), height + LINE
    sheet = Image.new('RGB', (width * columns, height * -(-len(maps) // COLUMNS)), 'white')
    path = font_of(''.join(word for word, _ in maps))
    font = ImageFont.truetype(path, LINE * 0.6) if path else ImageFont.load_default(LINE * 0.6)
    draw = ImageDraw.Draw(sheet)
    for number, (word, picture) in enumerate(maps):
        left, top = number % COLUMNS * width, number // COLUMNS * height
        sheet.paste(picture, (left, top))
        draw.text((left + 4, top + height - LINE + 2), word, 'black', font)
    return sheet
