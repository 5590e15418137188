"""Seeded logs of a feed of short videos, for the demo and the tests: `simulate` computes them, `generate` writes them.

They match `pipelines/specs/short_video.yaml`. Users and posts are Zipf-popular, new ones arrive every day, and the four
labels follow from latent factors and plain effects that a ranker can learn.
"""

from sangam.pipelines.synthetic.generate import generate
from sangam.pipelines.synthetic.simulation import SimulatedDay, simulate
from sangam.pipelines.synthetic.world import Scale

__all__ = ["Scale", "SimulatedDay", "generate", "simulate"]
