"""`sangam ui`: a root in the browser. It reads the records of runs, searches and backfills, and writes nothing.

`process` serves, `application` has the routes, `access` checks tokens, `pages` fills templates, and `live` reads the
state of a running run.
"""
