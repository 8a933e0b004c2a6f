"""What ranks send each other in a training step, and how much of its time they compute: on paper, from the recipe.

Volumes are bytes that one device sends and receives, by ring algorithms: a gather or a reduce-scatter of M bytes moves
M (N - 1) / N, an all-reduce twice that, in N - 1 and 2 (N - 1) rounds.
"""
from dataclasses import dataclass

from hcma.plan.flops import FORWARD_AND_BACKWARD, step_flops
from hcma.plan.levels import gathered
from hcma.plan.parameters import parts

# Scores are made block by block, and once more for their gradient.
BLOCKWISE = (FORWARD_AND_BACKWARD + 1) / FORWARD_AND_BACKWARD
NUMBER = 4  # bytes: features and gradients are exchanged in float32


@dataclass(frozen=True)
class Machine:
    """Operations per second that a device reaches, bytes per second inside a server of ``together`` devices and between
    servers for each device, and seconds that a round of a ring takes beside its bytes.
    """
    flops: float
    inside: float
    between: float
    latency: float
    together: int = 8

    def bandwidth(self, devices):
        """The slowest link of a ring."""
        return self.inside if devices <= self.together else self.between


def volumes(recipe, devices):
    """Bytes in a step with ``train.batch_size`` pairs, by what they are for: (what, bytes, rounds)."""
    batch, ring = recipe.train.batch_size, (devices - 1) / devices
    features = batch * gathered(recipe) * NUMBER * ring
    compared = sum(level == 'sentence_global' or recipe.loss.score != 'in_pair' for level in recipe.loss.levels)
    # A log-sum for every image from every device; for hard texts what each drew, and how high.
    sums = (devices - 1) * batch * NUMBER * ((compared if recipe.loss.contrast == 'softmax' else 0)
                                             + 2 * (recipe.model.fusion is not None))
    trained = sum(part.trained for part in parts(recipe))
    return [('features', features, devices - 1), ('their gradients', features, devices - 1),
            ('log-sums and draws', sums, devices - 1),
            ('gradients', 2 * trained * NUMBER * ring, 2 * (devices - 1))]


def step_seconds(recipe, devices, machine):
    """(seconds that a device computes in a step, seconds that it communicates), one after the other."""
    flops = step_flops(recipe)
    computing = (flops['image'] + flops['text'] + BLOCKWISE * flops['loss']) / devices / machine.flops
    if devices == 1:
        return computing, 0.0
    sent = sum(bytes_ / machine.bandwidth(devices) + rounds * machine.latency
               for _, bytes_, rounds in volumes(recipe, devices))
    return computing, sent
