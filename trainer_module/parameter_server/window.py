"""Tracks which calls of a rank were applied, so that repeated calls count once."""

MOST_OPEN = 4096


class Window:
    """Sequence numbers seen; memory is bounded by how far calls arrive out of order.

    >>> window = Window()
    >>> [window.add(number) for number in (0, 2, 0, 1, 2)]
    [True, True, False, True, False]
    """

    def __init__(self) -> None:
        self._below, self._above = 0, set[int]()

    def add(self, number: int) -> bool:
        """Adds a number; returns whether it is new.

        Raises:
            ValueError: too many earlier numbers are missing.
        """
        if number in self:
            return False
        self._above.add(number)
        while self._below in self._above:
            self._above.remove(self._below)
            self._below += 1
        if len(self._above) > MOST_OPEN:
            raise ValueError(f"sequence numbers: {len(self._above)} calls overtook number {self._below}")
        return True

    def __contains__(self, number: int) -> bool:
        return number < self._below or number in self._above

    @property
    def next(self) -> int:
        """The first number not seen."""
        return self._below

    @property
    def count(self) -> int:
        """Number of distinct numbers seen."""
        return self._below + len(self._above)
