"""Pictures of the examples folder, embedded in the page."""
import base64
import io

from PIL import Image

from hcma.report.markup import node

SMALL_SIDE = 96    # px; up to here a picture is magnified pixel by pixel instead of blurred
LARGEST_SIDE = 320  # px; larger pictures are shrunk, which keeps the page small
UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


class Album:
    """The pictures of one folder; each file is opened once, however often it is shown."""

    def __init__(self, folder):
        self.folder = folder.resolve()
        self.opened = {}

    def picture(self, name):
        """The RGB picture called ``name``, its longer side at most 320 px; ``None`` when it cannot be read."""
        return self.open(name)[0]

    def show(self, name, alt=''):
        """An ``img`` node, or a box that names the missing file."""
        picture, address = self.open(name)
        if picture is None:
            return node('span', f'missing picture: {name}', class_='lost')
        return show_picture(picture, address, alt)

    def open(self, name):
        name = str(name)
        if name not in self.opened:
            self.opened[name] = self.load(name)
        return self.opened[name]

    def whole(self, name):
        """The data address of a PNG at its own size; ``None`` when it cannot be read."""
        try:
            return data_address(self.read(name), 'image/png')
        except UNREADABLE:
            return None

    def read(self, name):
        path = (self.folder / name).resolve()
        # A run may come from somebody else: its report must not carry other files of this machine.
        if not path.is_relative_to(self.folder):
            raise FileNotFoundError(name)
        return path.read_bytes()

    def load(self, name):
        try:
            content = self.read(name)
            with Image.open(io.BytesIO(content)) as image:
                as_it_is = image.format in ('JPEG', 'PNG') and image.mode == 'RGB' and max(image.size) <= LARGEST_SIDE
                kind = image.format.lower()
                picture = image.convert('RGB')
        except UNREADABLE:
            return None, None
        if as_it_is:
            return picture, data_address(content, f'image/{kind}')
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
        return picture, jpeg_address(picture)


def show_picture(picture, address, alt):
    """An ``img`` node for a picture whose data address is known."""
    is_small = max(picture.size) <= SMALL_SIDE
    return node('img', src=address, alt=alt, width=picture.width, height=picture.height,
                class_='pixels' if is_small else None)


def jpeg_address(picture, quality=85):
    """A picture as the data address of a JPEG."""
    content = io.BytesIO()
    picture.save(content, 'JPEG', quality=quality)
    return data_address(content.getvalue(), 'image/jpeg')


def data_address(content, kind):
    """Bytes as a data address: part of the page, not a link."""
    return f'data:{kind};base64,{base64.b64encode(content).decode("ascii")}'
