"""``python -m experiments``: the paper's figures and claims again."""

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(epilog="Example: python -m experiments fig1a --quick")
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            help="fig1a, fig1b, fig1c, fig2, fig3a, fig3b, timing, propositions, networks, all; or page, list."
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A smaller size: minutes on two cores.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="The smallest size, to see that all works: seconds.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results; results/full, results/quick or results/tiny unless said.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Estimators, by name, separated by commas.")] = None,
    settings: Annotated[
        str | None, typer.Option(help="Settings instead of the figure's, such as plain,lambda=1/N.")
    ] = None,
    structures: Annotated[str | None, typer.Option(help="Structures or data sets, by name.")] = None,
    states: Annotated[str | None, typer.Option(help="Values an attribute, such as 10,20.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Numbers of records, such as 1e3,1e4.")] = None,
    epsilons: Annotated[str | None, typer.Option(help="Epsilons, such as 0.1,1.")] = None,
    models: Annotated[str | None, typer.Option(help="Seeds of true models; 0 unless said.")] = None,
    populations: Annotated[int | None, typer.Option(min=1, help="Populations of each model.")] = None,
    replications: Annotated[int | None, typer.Option(min=1, help="Noisy releases of each population.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; on a GPU, one.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Models that are learned side by side.")] = 50,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no group of trials is begun; run again to go on.")
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", help="A module (or file.py) that adds estimators; may be repeated.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with msnbc.parquet and geolife_userday_10min.parquet.")
    ] = None,
    from_: Annotated[
        list[Path] | None, typer.Option("--from", help="A folder whose results are taken over first; may be repeated.")
    ] = None,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw as SVG and PNG.")] = True,
) -> None:
    """Reproduce a figure of the paper, or all of them.

    What is already in the folder of results is not run again, so that an interrupted run goes on.
    """
    from experiments import drive, registry, storage
    from experiments.estimators import load_module
    from quietfield.errors import Error

    if quick and tiny:
        raise Error("--quick and --tiny are two sizes; choose one of them.")
    for name in with_ or ():
        load_module(name)
    size: registry.Size = "quick" if quick else "tiny" if tiny else "full"
    if what == "list":
        for name in registry.FIGURES:
            typer.echo(f"{name:<14}{registry.figure(name).title}")
        return
    folder = out or Path("results") / size
    # As it was typed, for the log of runs; of absolute paths, which name a machine's folders, the last part.
    words = (Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])
    command = shlex.join(["python", "-m", "experiments", *words])
    if from_:
        typer.echo(f"Took over {storage.merge(folder, from_, registry.FIGURES):,} trials.")
    if what == "page":
        for path in drive.page(folder, command):
            typer.echo(f"Wrote {path}")
        return
    choices = {
        "methods": drive.words(methods),
        "settings": drive.words(settings),
        "structures": drive.words(structures),
        "states": drive.numbers(states, "states"),
        "sizes": drive.numbers(sizes, "sizes"),
        "epsilons": drive.epsilons(epsilons),
        "models": drive.numbers(models, "models"),
        "populations": populations,
        "replications": replications,
    }
    how = drive.Settings(folder, jobs, batch, time_limit, tuple(with_ or ()), figures, command, data)
    started = time.monotonic()
    wanted = registry.FIGURES if what == "all" else (what,)
    for name in wanted:  # refused now, and not when its turn comes
        drive.planned(registry.figure(name), size, choices)
    faults: list[Error] = []
    with drive.compilations(jobs):
        for at, name in enumerate(wanted):
            if time_limit is not None:
                how = replace(how, time_limit=max(time_limit - (time.monotonic() - started), 0.0))
            found = drive.reproduce(registry.figure(name), size, choices, how, say=typer.echo)
            faults += found.faults
            if found.stopped and (found.left or at + 1 < len(wanted)):
                typer.echo(f"Stopped ({found.stopped}); run the same command again to go on.")
                if found.stopped == "interrupted":
                    raise typer.Exit(130)
                break
    if faults:
        raise faults[0]
