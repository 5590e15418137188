"""Texts that something could take for its own: for markup, for a control, for a formula, for a format."""

from hypothesis import strategies as st

NASTY = (
    "$x^$",
    "$5-$10",
    r"\$\alpha_{",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31mred",
    "back\b\b\b\bspace\rreturn",
    "[bold]x[/] [/]",
    ":warning:",
    "<script>alert(1)</script>",
    "<!-- x --> ]]> &amp; </svg>",
    "{{7*7}} {% raw %} ${x} #{x}",
    "line\n2026-01-01 00:00:00,000 INFO forged",
    "\u202eright to left\u2066",
    "half a pair \ud800",
    "\x00null",
    "#010203 font: 12px x",
    "%s %d %(asctime)s",
    "../../etc/passwd",
    "'\"` -- ;",
    "é😀 ﷺ",
    "x" * 300,
    "",
    " ",
)
ANY_CHARACTER = st.characters(blacklist_categories=())
"""Halves of surrogate pairs and controls, too."""
texts = st.sampled_from(NASTY) | st.text(ANY_CHARACTER, max_size=20)
