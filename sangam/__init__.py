"""Sangam: daily training of recommender rankers.

The four packages lie at the top of the repository; here are links to them, so that a checkout and a wheel have one name
for each module, `sangam.schemas.spec`, which collides with nobody's `schemas` (infra/adr/0001-four-packages.md).
"""
