"""`sangam ui`: a root in the browser. It reads what runs, searches and backfills leave, and writes nothing.

`process` serves, `application` has the routes, `access` says who may look; `views` are pure functions from the history
to what a template shows, and `live` is what is known of a run under way.
"""
