"""Which calls of a rank have been carried out: a repeated or late one counts once."""

MOST_OPEN = 4096


class Window:
    """Sequence numbers seen, in memory bounded by how far calls overtake each other.

    >>> window = Window()
    >>> [window.add(number) for number in (0, 2, 0, 1, 2)]
    [True, True, False, True, False]
    """

    def __init__(self) -> None:
        self._below, self._above = 0, set[int]()

    def add(self, number: int) -> bool:
        """Notes a number; returns whether it is new.

        Raises:
            ValueError: too many numbers before it are missing.
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
        """The first number that was not seen."""
        return self._below

    @property
    def count(self) -> int:
        """How many different numbers were seen."""
        return self._below + len(self._above)
