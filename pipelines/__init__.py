"""The DAG of a pipeline, the local runner, the KFP compiler and the command line."""
