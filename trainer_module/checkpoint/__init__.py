"""Checkpoints: the whole state of a training on disk, whole by their manifest, restored onto any number of ranks.

`files` writes and reads arrays with checksums; `manifest` says what a checkpoint holds; `folder` where checkpoints
lie; `writer` publishes and `schedule` says when; `choice` has all ranks go on from the same one; `restore` gives a rank
its part back; `warm_start` what of it fits another spec.
"""
