"""The command `sangam deploy`."""

from typing import Annotated

import typer

from sangam.pipelines.commands.options import (
    CaCertOption,
    DataRootOption,
    ExperimentOption,
    HostOption,
    ImageOption,
    JsonOption,
    NamespaceOption,
    PipelineRootOption,
    ServiceAccountOption,
    SpecArgument,
    TokenEnvOption,
    TokenFileOption,
    TrainerImageOption,
)
from sangam.pipelines.console import Teller, print_json
from sangam.pipelines.deploy.connection import Connection, connect
from sangam.pipelines.deploy.release_options import (
    DATA_ROOT,
    PIPELINE_ROOT,
    ReleaseOptions,
    check_options,
    compile_for_kubeflow,
    make_release,
)

EPILOG = (
    "Example: sangam deploy pipelines/specs/short_video.yaml --host http://localhost:8888 "
    "--image registry.example/sangam@sha256:... --trainer-image registry.example/sangam-trainer@sha256:... "
    "--at 02:00\n\n"
    "Exit codes: 0 the ranker is deployed; 2 the spec or an option is wrong, or the server failed: "
    "the same command resumes."
)


def deploy(
    spec: SpecArgument,
    host: HostOption,
    image: ImageOption,
    trainer_image: TrainerImageOption = "",
    at: Annotated[str, typer.Option(metavar="HH:MM", help="Time of the daily run, UTC.")] = "02:00",
    namespace: NamespaceOption = "",
    experiment: ExperimentOption = "",
    pipeline_root: PipelineRootOption = PIPELINE_ROOT,
    data_root: DataRootOption = DATA_ROOT,
    service_account: ServiceAccountOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Runs a spec on Kubeflow every day: uploads the pipeline and keeps exactly one recurring run of it.

    What is already there is reused. Each run is for the day before. Runs never overlap, and missed days are not caught
    up: `sangam backfill --on kfp` does that.
    """
    from sangam.pipelines.deploy.deployment import deploy as deploy_release
    from sangam.pipelines.deploy.deployment import preview
    from sangam.pipelines.kubeflow.checks import alerts_note
    from sangam.pipelines.times import Clock, check_time
    from sangam.schemas.loading import load_spec

    loaded, at, say, is_changed = load_spec(spec), check_time(at), Teller(as_json=as_json), False
    options = ReleaseOptions(image, trainer_image, experiment, pipeline_root, data_root, service_account)
    check_options(loaded, options)
    # Connect first: compiling takes seconds, and a wrong address should be reported at once.
    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        say(f"compiling  {loaded.name}")
        if note := alerts_note(loaded):
            say(note)
        release = make_release(loaded, options, compile_for_kubeflow)
        if dry_run:
            preview(api, release, at, say)
        else:
            is_changed = deploy_release(api, release, at, Clock(), say)
            if not is_changed:
                say("nothing has changed")
    if as_json:
        told = {"version": release.version_name, "at": at, "dry_run": dry_run, "changed": is_changed}
        print_json({"name": loaded.name, **told, "lines": say.lines})
