import io

from sangam.pipelines.drafting.progress import LONG_S, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_that_leaves_nothing_behind() -> None:
    stream = Terminal()
    with shown(stream) as track:
        assert list(track("abc", "reading files")) == ["a", "b", "c"]
    assert "reading files" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K\x1b[?25h\r")  # The line is erased, and the cursor shown.


def test_elsewhere_a_long_draft_is_one_line_and_a_short_one_none() -> None:
    stream, now = io.StringIO(), 0.0
    with shown(stream, lambda: now) as track:
        list(track(range(2000), "reading files"))
        assert stream.getvalue() == ""
        for done, _ in enumerate(track(range(2000), "finding types of columns")):
            now = LONG_S + 1 if done >= 1000 else now
    assert stream.getvalue() == "finding types of columns: 1,001 of 2,000 done after 5 s\n"
