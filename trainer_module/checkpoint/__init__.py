"""Checkpoints: the whole state of a training on disk, complete once the manifest is there, for any number of ranks.

`files` writes and reads arrays with checksums; `manifest` lists what a checkpoint holds; `folder` knows where
checkpoints lie; `writer` writes one; `choice` makes all ranks start from the same one; `restore` reads one rank's part;
`warm_start` reads what fits another spec.
"""
