"""An iterator that is slow to be destroyed holds nobody up."""

import threading
from typing import Any

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")


class _Slow:
    """A dataset of three elements whose iterator waits for `may_go` when it is destroyed."""

    def __init__(self) -> None:
        self.may_go, self.gone = threading.Event(), threading.Event()

    def __iter__(self) -> Any:
        return _SlowIterator(self)


class _SlowIterator:
    def __init__(self, dataset: _Slow):
        self._dataset, self._left = dataset, [1, 2, 3]

    def __iter__(self) -> "_SlowIterator":
        return self

    def __next__(self) -> int:
        if not self._left:
            raise StopIteration
        return self._left.pop(0)

    def __del__(self) -> None:
        # A fault shows as a failure, not as a test that hangs.
        if self._dataset.may_go.wait(60):
            self._dataset.gone.set()


@pytest.mark.parametrize("taken", [1, 3])
def test_whoever_iterates_does_not_wait_for_the_destructor(taken: int) -> None:
    from sangam.trainer_module.input.ending import Begun

    dataset: Any = _Slow()
    elements = Begun(dataset)
    assert [next(elements) for _ in range(taken)] == [1, 2, 3][:taken]
    if taken == 3:
        assert next(elements, None) is None
    del elements
    assert not dataset.gone.is_set()
    dataset.may_go.set()
    assert dataset.gone.wait(60)


def test_an_error_of_the_iterator_is_raised() -> None:
    from sangam.trainer_module.input.ending import Begun

    class Failing:
        def __iter__(self) -> Any:
            yield 1
            raise ValueError("lost")

    elements = Begun(Failing())  # type: ignore[arg-type]
    assert next(elements) == 1
    with pytest.raises(ValueError, match="lost"):
        next(elements)
