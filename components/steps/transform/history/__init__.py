"""The history before each day: counted once for each day, and summed over the days before it.

`counts` counts a day; `window` sums the days before another one; `tables` are the values of features, in folders that
`sangam.schemas.contracts.history` describes; `joining` reads them for the rows of a day.
"""
