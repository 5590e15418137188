"""Readers: one module per file format, each yielding record batches of the inputs' columns in bounded memory.

`inspect` checks the head of a file (footer, header, first record) before the run, `read` reads all of it. Both take an
open file and raise `UserError` or return problems with the file's path. Columns keep the types of the file, except that
a scalar column is never a list.
"""
