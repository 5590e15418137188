"""What the benchmark of exports tells."""

from bench.export_scale import table


def test_a_form_that_takes_too_much_is_marked() -> None:
    got = {
        "export_s": 25.0,
        "export_bytes": 1_440,
        "model_bytes": 721_000_000,
        "imports_s": 1.0,
        "load_s": 2.5,
        "loaded_peak_bytes": 720,
        "one_user_ms": 1.5,
        "full_rows_ms": 6.0,
    }
    forms = {
        "stock-float32": got,
        "slow": got | {"export_s": 120.5},
        "large": got | {"export_bytes": 2_161},
        "late": got | {"load_s": 29.5},
    }
    lines = table({"rows": 10, "table_bytes": 720, "bare_bytes": 0, "forms": forms}).splitlines()
    assert lines[4] == "| stock-float32 | 25.0 | 2.00 | 721 | 3.5 | 1.00 | 1.50 | 6.00 |"
    assert ["(missed)" in line for line in lines[4:]] == [False, True, True, True]
