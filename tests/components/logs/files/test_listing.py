"""Problems of many files in one message."""

from sangam.components.logs.files.listing import first_problems


def test_a_problem_that_many_files_have_is_told_once_with_the_first_and_the_last() -> None:
    told = first_problems([*(f"/logs/{day}.csv: no column 'a'; add it" for day in (1, 2, 3)), "/logs/4.csv: is empty"])
    assert told == ["/logs/1.csv and 2 more files to /logs/3.csv: no column 'a'; add it", "/logs/4.csv: is empty"]
    assert first_problems(["data.pattern: day 1", "data.pattern: day 2"]) == [
        "data.pattern: day 1",
        "data.pattern: day 2",
    ]
    assert first_problems([f"/{n}: {n}" for n in range(12)])[10:] == ["... and 2 more problems of this kind"]
