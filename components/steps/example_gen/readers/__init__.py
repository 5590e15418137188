"""Readers: one module per file format, each yielding record batches of the declared columns in bounded memory.

`inspect` is the cheap look before the run (footer, header, first record), `read` the whole file. Both take an open
file and raise `UserError` or return problems that name the file. Rows keep the types of the file, except that a scalar
column is never a list.
"""
