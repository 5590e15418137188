"""The served ranker: one SavedModel, in a form of stock operations or of TFRA's tables.

`signatures` is the model and its signatures; `stock_table` and `tfra_table` hold the rows, in a type of `row_types`;
`raw_columns`, `request_columns` and `candidates` score users with many candidates each; `reduction` measures what
smaller rows cost; `description` writes the files beside the graph.
"""
