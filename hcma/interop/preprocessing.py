"""What a preprocessor_config.json says of pictures, as values of the recipe's ``model.image``."""
from hcma.errors import InputError

BICUBIC = 3
FILE = 'preprocessor_config.json'


def read_preprocessing(config, size, where):
    """``fit``, ``mean`` and ``deviation`` of a preprocessor's ``config`` for pictures of ``size`` pixels a side.

    Raises ``InputError`` where it asks for what cannot be done.
    """
    resample = config.get('resample', BICUBIC)
    if resample != BICUBIC:
        raise InputError(f'{where}: resample is {resample}, and pictures are resized bicubically here ({BICUBIC})')
    target = config.get('size', {'shortest_edge': size})
    target = {'shortest_edge': target} if isinstance(target, int) else target
    crop = config.get('crop_size', size)
    crop = {'height': crop, 'width': crop} if isinstance(crop, int) else crop
    is_cut = crop.get('height') == crop.get('width') == size and config.get('do_center_crop', True)
    is_square = target.get('height', size) == target.get('width', size) == size
    if 'shortest_edge' in target:
        fits, fit = target['shortest_edge'] == size and is_cut, 'shortest'
    else:
        fits, fit = is_square, 'squash'
    if not fits or not config.get('do_resize', True):
        raise InputError(f'{where}: makes no pictures of {size} x {size} pixels, the size of the model, by resizing to '
                         'the shortest edge and cutting, or by resizing to a square')
    return {'fit': fit, **_statistics(config)}


def write_preprocessing(image):
    """The preprocessor_config.json of the recipe's ``model.image``, an object."""
    size = {'height': image.size, 'width': image.size} if image.fit == 'squash' else {'shortest_edge': image.size}
    return {'image_processor_type': 'CLIPImageProcessor', 'do_resize': True, 'size': size, 'resample': BICUBIC,
            'do_center_crop': image.fit != 'squash', 'crop_size': {'height': image.size, 'width': image.size},
            'do_convert_rgb': True, 'do_rescale': True, 'rescale_factor': 1 / 255, 'do_normalize': True,
            'image_mean': list(image.mean), 'image_std': list(image.deviation)}


def _statistics(config):
    found = {'mean': config.get('image_mean'), 'deviation': config.get('image_std')}
    return {name: [float(value) for value in values] for name, values in found.items() if values is not None}
