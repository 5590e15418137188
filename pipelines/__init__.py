"""The DAG of a pipeline, the local runner, the KFP compiler and the command line."""

if __name__ != "sangam.pipelines":
    raise ImportError(f"{__name__}: is sangam.pipelines; under two names, modules would be loaded twice")
