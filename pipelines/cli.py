"""The command line `sangam`. Only commands that need TensorFlow import it."""

import os
import sys

import typer

import sangam
from sangam.pipelines.commands import (
    alert_test,
    backfill,
    bless,
    clean,
    compile,
    demo,
    deploy,
    diff,
    doctor,
    embeddings,
    generate,
    init,
    input_service,
    lineage,
    load,
    online,
    plan,
    predict,
    promote,
    report,
    retire,
    rollback,
    run,
    runs,
    schedule,
    schema,
    serve,
    setup,
    show,
    skew,
    status,
    tune,
    ui,
    validate,
    version,
    why,
)
from sangam.pipelines.console import say_error
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.early_sigterm import exit_on
from sangam.schemas.host.environment import settle
from sangam.schemas.host.lock import LockHeld

app = typer.Typer(
    name="sangam",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Trains, evaluates and serves multi-task rankers, each described by one YAML file.",
)


def main() -> None:
    """Runs the command line; the entry point of `sangam`."""
    settle()
    # TensorFlow 2.16 selects its Keras on import; child processes inherit the variable.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    if os.getpid() == 1:
        exit_on()  # The first process of a container has no default action of SIGTERM.
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == sangam.__name__:
            raise
        told = f"{error.name} is not installed; run `sangam setup`, which installs the pinned packages"
        say_error(told, as_json="--json" in sys.argv[1:], code=ExitCode.MISTAKE)
        sys.exit(ExitCode.MISTAKE)
    except UserError as error:
        code = ExitCode.ROOT_IN_USE if isinstance(error, LockHeld) else ExitCode.MISTAKE
        say_error(str(error), as_json="--json" in sys.argv[1:], code=code)
        sys.exit(code)


@app.callback()
def _options(version: version.VersionOption = False) -> None:
    del version  # Its callback has printed it.


app.command(epilog=init.EPILOG)(init.init)
app.command(epilog=validate.EPILOG)(validate.validate)
app.command(epilog=run.EPILOG)(run.run)
app.command(epilog=backfill.EPILOG)(backfill.backfill)
app.command(epilog=tune.EPILOG)(tune.tune)
app.command(epilog=report.EPILOG)(report.report)
app.command(epilog=ui.EPILOG)(ui.ui)
app.command(epilog=runs.EPILOG)(runs.runs)
app.command(epilog=show.EPILOG)(show.show)
app.command(epilog=why.EPILOG)(why.why)
app.command(epilog=diff.EPILOG)(diff.diff)
app.command(epilog=lineage.EPILOG)(lineage.lineage)
app.command(epilog=bless.EPILOG)(bless.bless)
app.command(epilog=clean.EPILOG)(clean.clean)
app.command(epilog=online.EPILOG)(online.online)
app.command(epilog=serve.EPILOG)(serve.serve)
app.command(epilog=load.EPILOG)(load.load)
app.command(epilog=skew.EPILOG)(skew.skew)
app.command(epilog=promote.EPILOG)(promote.promote)
app.command(epilog=predict.EPILOG)(predict.predict)
app.command(epilog=embeddings.EPILOG)(embeddings.embeddings)
app.command(epilog=rollback.EPILOG)(rollback.rollback)
app.command(epilog=deploy.EPILOG)(deploy.deploy)
app.command(epilog=status.EPILOG)(status.status)
app.command(epilog=retire.EPILOG)(retire.retire)
app.command(name="alert-test", epilog=alert_test.EPILOG)(alert_test.alert_test)
app.add_typer(schedule.app, name="schedule")
app.command(name="compile", epilog=compile.EPILOG)(compile.compile_)
app.command(epilog=generate.EPILOG)(generate.generate)
app.add_typer(input_service.app, name="input-service")
app.command(epilog=plan.EPILOG)(plan.plan)
app.command(epilog=setup.EPILOG)(setup.setup)
app.command(epilog=demo.EPILOG)(demo.demo)
app.command(epilog=doctor.EPILOG)(doctor.doctor)
app.command(epilog=version.EPILOG)(version.version)
app.command(epilog=schema.EPILOG)(schema.schema)


if __name__ == "__main__":
    main()
