"""A student that begins with weights of its teacher's."""
import sys

from mindspore import Tensor

from hcma.errors import InputError
from hcma.models.inherit import inherited
from hcma.models.lora import merge_lora


def require_narrower(recipe, teacher, run):
    """Raise ``InputError`` where the student of ``recipe`` cannot be cut out of the teacher, trained as ``teacher``."""
    start = recipe.distill.start
    for name in () if start is None else ('image', 'text'):
        own, other = getattr(recipe.model, name), getattr(teacher.model, name)
        beyond = [block for block in getattr(start, name) if block >= other.depth]
        if beyond:
            raise InputError(f'distill.start.{name}: there is no block {beyond[0]} in the teacher {run}, which has '
                             f'{other.depth} (0 to {other.depth - 1}); name others')
        for key in ('width', 'heads', 'mlp_width'):
            if getattr(own, key) > getattr(other, key):
                raise InputError(f'distill.start: the student has model.{name}.{key} {getattr(own, key)}, the teacher '
                                 f'{run} only {getattr(other, key)}; take at most as much, or leave start out')
        if own.width * other.heads != other.width * own.heads:
            raise InputError(f'distill.start: the heads of the student\'s {name} encoder are '
                             f'{own.width // own.heads} wide, those of the teacher {run} {other.width // other.heads}; '
                             'whole heads are taken over, so change heads or width')


def begin(student, recipe, teacher, taught_by, same_words):
    """Give the model ``student`` what it takes over of the model ``teacher``, and say how much that is."""
    parameters = {parameter.name: parameter for parameter in student.get_parameters()}
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    blocks = {'image': recipe.distill.start.image, 'text': recipe.distill.start.text}
    taken = inherited(merge_lora(teacher), shapes, taught_by.model, recipe.model, blocks, same_words)
    for name, array in taken.items():
        parameters[name].set_data(Tensor(array))
    share = sum(array.size for array in taken.values()) / sum(parameter.size for parameter in parameters.values())
    print(f"note: {share:.0%} of the student's weights begin as the teacher's", file=sys.stderr)
