"""A training job in pods: its manifests as pure functions of the spec, and its execution.

`run` describes the job; `manifests` renders its objects; `lifecycle` creates, watches, retries and removes them.
"""
