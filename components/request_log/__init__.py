"""The log of requests that a server writes: what is taken of a request, and how it reaches a folder or a topic.

A request's thread only puts it into a bounded queue (`queue.py`); one thread makes rows (`rows.py`) and writes them.
"""
