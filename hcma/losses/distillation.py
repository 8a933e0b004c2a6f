"""How far a student's features, similarities and attention maps are from a teacher's, each a float32 scalar."""
import mindspore as ms
from mindspore import ops

from hcma.models.layers import normalise

SMALLEST = 1e-20  # added to a share of attention before its logarithm; cosines reach down to exp(-40)


def feature_distance(student_NE, teacher_NE, weight_N, kind):
    """Mean distance of rows, over those of ``weight_N`` (0 or 1): 'mse' the squared distance, 'cosine' 1 - cosine.

    The squared distance is summed, not averaged, over the E numbers of a row, so that its weight does not depend on
    how many these are: for rows of length 1 it is twice the cosine distance.
    """
    student, teacher = ops.cast(student_NE, ms.float32), ops.cast(teacher_NE, ms.float32)
    if kind == 'cosine':
        distance = 1 - (normalise(student) * normalise(teacher)).sum(-1)
    else:
        distance = ((student - teacher) * (student - teacher)).sum(-1)
    return (distance * weight_N).sum() / ops.maximum(weight_N.sum(), 1.0)


def similarity_divergence(student_BB, teacher_BB, temperature):
    """KL divergence of the student's softmax from the teacher's, over images and over texts, the mean of both ways.

    The scores are scaled by each model's own temperature; both are divided by ``temperature`` once more, and the result
    is multiplied by its square, so that gradients keep their size (Hinton et al., 2015; affinities as in Wu et al.,
    2023).
    """
    student = ops.cast(student_BB, ms.float32) / temperature
    teacher = ops.cast(teacher_BB, ms.float32) / temperature
    by_text = _divergence(student, teacher)
    by_image = _divergence(student.swapaxes(0, 1), teacher.swapaxes(0, 1))
    return 0.5 * temperature ** 2 * (by_text + by_image)


def _divergence(student, teacher):
    log_student, log_teacher = ops.log_softmax(student, -1), ops.log_softmax(teacher, -1)
    return (ops.exp(log_teacher) * (log_teacher - log_student)).sum(-1).mean()


def map_divergence(student_BLP, teacher_BLP, weight_BL):
    """KL divergence of the student's attention from the teacher's, the mean over words of ``weight_BL`` (0 or 1).

    Both are shares of the same P patches and sum to 1 for every word that counts.
    """
    student, teacher = ops.cast(student_BLP, ms.float32), ops.cast(teacher_BLP, ms.float32)
    gain = ops.log(teacher + SMALLEST) - ops.log(student + SMALLEST)
    return ((teacher * gain).sum(-1) * weight_BL).sum() / ops.maximum(weight_BL.sum(), 1.0)
