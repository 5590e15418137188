"""A training job of several pods: its manifests as pure functions of what is declared, and the one who carries it out.

`run` says what is launched; `manifests` renders it; `lifecycle` creates, watches, retries and removes it.
"""
