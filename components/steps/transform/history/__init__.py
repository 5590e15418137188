"""What happened before each day: counted once for each day, and merged over the days before it.

`counts` is what a day adds; `window` sums it over the days before another one; `tables` are the values of features, in
folders that `schemas.contracts.history` describes; `joining` reads them for the rows of a day.
"""
