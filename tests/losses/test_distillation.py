"""The distances between a student and a teacher are those of their formulas in float64, and so are the gradients."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hcma.losses.distillation import feature_distance, map_divergence, similarity_divergence

RNG = np.random.default_rng(0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def kl(teacher, student):
    return (teacher * (np.log(teacher) - np.log(student))).sum(-1)


def features_reference(kind, teacher, weight):
    def distance(student):
        if kind == 'mse':
            rows = ((student - teacher) ** 2).sum(-1)
        else:
            rows = 1 - (student * teacher).sum(-1) / np.linalg.norm(student, axis=-1) / np.linalg.norm(teacher, axis=-1)
        return rows[weight > 0].mean()
    return distance


def similarity_reference(teacher, temperature):
    def divergence(student):
        both = [kl(softmax(t / temperature), softmax(s / temperature)).mean()
                for s, t in ((student, teacher), (student.T, teacher.T))]
        return temperature ** 2 * np.mean(both)
    return divergence


def map_reference(teacher, weight):
    def divergence(student):
        return kl(teacher, student)[weight > 0].mean()
    return divergence


def cases():
    """By name the loss as a function of the student's Tensor, its reference, and the student's array."""
    student, teacher = RNG.normal(size=(2, 5, 4))
    weight = np.array([1, 0, 1, 1, 0], np.float32)
    given = Tensor(teacher, ms.float32), Tensor(weight)
    for kind in ('mse', 'cosine'):
        yield kind, lambda x, kind=kind: feature_distance(x, *given, kind), features_reference(kind, teacher, weight), \
            student
    scores, taught = 3 * RNG.normal(size=(2, 5, 5))
    for temperature in (1.0, 2.5):
        yield f'similarity {temperature}', \
            lambda x, t=temperature: similarity_divergence(x, Tensor(taught, ms.float32), t), \
            similarity_reference(taught, temperature), scores
    maps, of_teacher = softmax(RNG.normal(size=(2, 2, 3, 6)))
    words = np.array([[1, 1, 0], [0, 1, 0]], np.float32)
    yield 'map', lambda x: map_divergence(x, Tensor(of_teacher, ms.float32), Tensor(words)), \
        map_reference(of_teacher, words), maps


CASES = list(cases())


@pytest.mark.parametrize('loss, reference, student', [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_value_and_gradient_are_those_of_the_formula(loss, reference, student, numerical_gradient):
    value, gradient = ms.value_and_grad(loss)(Tensor(student, ms.float32))
    assert value.asnumpy() == pytest.approx(reference(student), rel=1e-5)
    np.testing.assert_allclose(gradient.asnumpy(), numerical_gradient(reference, student.copy()), rtol=1e-3, atol=1e-5)
    assert np.abs(gradient.asnumpy()).max() > 1e-3


@pytest.mark.parametrize('kind', ['mse', 'cosine'])
def test_without_a_row_that_counts_nothing_is_lost(kind):
    student, teacher = (Tensor(RNG.normal(size=(5, 4)), ms.float32) for _ in range(2))
    assert feature_distance(student, teacher, Tensor(np.zeros(5, np.float32)), kind).asnumpy() == 0


@pytest.mark.parametrize('divergence', [lambda x: similarity_divergence(x, x, 2.0),
                                        lambda x: map_divergence(x.reshape(1, 3, 3), x.reshape(1, 3, 3),
                                                                 Tensor(np.ones((1, 3), np.float32)))])
def test_a_student_like_its_teacher_loses_nothing(divergence):
    x = Tensor(softmax(RNG.normal(size=(3, 3))), ms.float32)
    assert divergence(x).asnumpy() == pytest.approx(0, abs=1e-6)


def test_a_teacher_that_is_sure_gives_a_finite_loss_and_gradient():
    sure = Tensor(np.eye(3, dtype=np.float32)[None])
    value, gradient = ms.value_and_grad(lambda x: map_divergence(x, sure, Tensor(np.ones((1, 3), np.float32))))(
        Tensor(np.eye(3, dtype=np.float32)[None, ::-1].copy()))
    assert np.isfinite(value.asnumpy()) and np.isfinite(gradient.asnumpy()).all() and value.asnumpy() > 1
