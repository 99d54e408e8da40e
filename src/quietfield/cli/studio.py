"""``quietfield studio``: the same as the commands, on a page of this machine."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(epilog="Example: quietfield studio visits/")
def studio(
    folder: Annotated[Path, typer.Argument(help="Where data, drafts and releases lie.")] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open a page that does what the commands do: publish a release or synthetic records, or explore one.

    It is served to this machine alone, to whoever has the address that is shown, and asks nothing of the network.
    """
    from quietfield.studio.server import serve

    serve(folder, port=port, browse=browser, say=typer.echo)
