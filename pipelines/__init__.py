"""In what order and where: the DAG, the local runner, the KFP compiler and the command line."""
