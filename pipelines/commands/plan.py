"""The command `sangam plan`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sangam.pipelines.commands.options import JsonOption, SpecArgument
from sangam.pipelines.console import print_json, say, terminal

EPILOG = "Example: sangam plan pipelines/specs/short_video.yaml --rows users=80e6,posts=55e6 --ranks 8"

_ParameterServers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of parameter servers. [default: cluster.parameter_servers of the spec]"),
]
_RanksPerHost = Annotated[
    int | None, typer.Option(min=1, help="Also print the memory that a host of this many ranks needs.")
]
_SamplesPerS = Annotated[
    float | None,
    typer.Option(
        "--samples-per-s", min=0.001, help="Also print what training costs at this rate of all ranks, by `cost`."
    ),
]
_CandidatesPerCoreS = Annotated[
    float | None,
    typer.Option(
        "--candidates-per-core-s",
        min=0.001,
        help="Also print what a million candidates cost at this rate of a server's core, by `cost.serving_core_hour`.",
    ),
]
_GpuMemory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Also print which rows fit a GPU of each rank with this memory, as 24GB."),
]
_GpuResults = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Predict the rate of a GPU rank from these results of infra/gpu/run.sh."),
]
_GpuSamplesPerS = Annotated[
    float | None,
    typer.Option(
        "--gpu-samples-per-s",
        min=0.001,
        help="Also print the price at this rate of all ranks with GPUs, by `cost.gpu_rank_per_hour`.",
    ),
]
_GpuRanks = Annotated[
    int | None, typer.Option(min=1, help="Number of ranks with GPUs at that rate. [default: as many]")
]

_MemoryPerRank = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory of a rank, as 64GB. [default: this machine's free memory, shared by the ranks]"
    ),
]
_MemoryPerServer = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory of a parameter server. [default: what the ranks leave here, shared by the servers]",
    ),
]
_Rows = Annotated[
    str,
    typer.Option(
        help="Rows by table, as users=80e6,posts=55M; of rates and counts by feature. Others are planned full."
    ),
]
_Layers = Annotated[
    bool, typer.Option("--layers", help="Also print which code computes the layers here; loads TensorFlow: 5 s.")
]


def plan(
    spec: SpecArgument,
    rows: _Rows = "",
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks. [default: cluster.ranks of the spec]")
    ] = None,
    parameter_servers: _ParameterServers = None,
    memory_per_rank: _MemoryPerRank = None,
    memory_per_server: _MemoryPerServer = None,
    ranks_per_host: _RanksPerHost = None,
    samples_per_s: _SamplesPerS = None,
    candidates_per_core_s: _CandidatesPerCoreS = None,
    gpu_memory: _GpuMemory = None,
    gpu_results: _GpuResults = None,
    gpu_samples_per_s: _GpuSamplesPerS = None,
    gpu_ranks: _GpuRanks = None,
    layers: _Layers = False,
    as_json: JsonOption = False,
) -> None:
    """Prints the memory that a ranker needs, by table and by process, and what its training costs where the spec has
    prices. Exits with 2 if it does not fit."""
    from sangam.pipelines.checks.plan import document, given, print_plan, refuse_unfit, this_machine
    from sangam.pipelines.checks.planned_cost import planned_cost
    from sangam.pipelines.checks.planned_gpu import compared_price, planned_gpu
    from sangam.pipelines.checks.predicted_gpu import of_gpus, predicted_rates, told
    from sangam.pipelines.outside import layers_here
    from sangam.schemas.derived.histories import history_costs
    from sangam.schemas.derived.history_memory import history_memory, split_rows
    from sangam.schemas.derived.once import once_a_request
    from sangam.schemas.derived.online import shadow_text
    from sangam.schemas.derived.plan import plan as plan_of
    from sangam.schemas.loading import load_spec
    from sangam.schemas.quantities import parse_rows

    loaded = load_spec(spec)
    num_ranks, ranker = ranks or loaded.cluster.ranks, loaded.ranker()
    of_tables, of_history = split_rows(ranker, parse_rows("--rows", rows))
    made = plan_of(loaded, rows=of_tables, ranks=num_ranks, servers=parameter_servers)
    limits = given(made, memory_per_rank, memory_per_server) or this_machine(made, ranks_per_host)
    cost = planned_cost(loaded, num_ranks, samples_per_s, candidates_per_core_s)
    gpu, rates = planned_gpu(loaded, made, gpu_memory), predicted_rates(loaded, gpu_results)
    numbers = {"ranks": num_ranks, "gpu_ranks": gpu_ranks or num_ranks}
    compared = compared_price(loaded, samples_per_s, gpu_samples_per_s, rates, **numbers)
    histories = history_costs(ranker)
    before = history_memory(ranker, {name: table.rows for name, table in made.tables.items()}, of_history)
    code, served = layers_here(ranker) if layers else None, once_a_request(ranker)
    if as_json:
        also: dict[str, Any] = {"cost": cost and cost._asdict(), "layers": code, "rank": served._asdict()}
        also["histories"] = [each._asdict() for each in histories]
        also["rates_and_counts"] = [each._asdict() for each in before]
        print_json(document(made, limits, ranks_per_host) | of_gpus(gpu, rates) | also)
    else:
        print_plan(made, limits, terminal(), ranks_per_host)
        lines = [*(gpu.lines() if gpu else ()), *told(rates), cost and cost.text(), compared, code, served.text()]
        lines += [*(each.text() for each in histories), *(each.text() for each in before)]
        for line in filter(None, [*lines, shadow_text(loaded, made)]):
            say(line)
    refuse_unfit(made, limits)
    if not as_json:
        say("it fits")
