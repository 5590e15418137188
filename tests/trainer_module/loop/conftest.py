"""Many stores live in the process of these tests."""

from collections.abc import Iterator

import pytest

from tests.trainer_module.little_reserved import little_reserved


@pytest.fixture(scope="module", autouse=True)
def _stores_that_reserve_little(request: pytest.FixtureRequest) -> Iterator[None]:
    with little_reserved(request):
        yield
