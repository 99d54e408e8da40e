"""A report on a release and a model of it: one HTML file, safe to publish, that needs no network and no script.

Everything in it follows from the release and the model alone, so it tells no more about anyone than they do. The same
release and model give the same bytes.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from quietfield.files import check_writable, write_atomically
from quietfield.learning import fit
from quietfield.status import show_status

if TYPE_CHECKING:
    from quietfield.models.model import Model
    from quietfield.releases.release import Release


def write_report(
    path: str | Path,
    release: "Release",
    model: "Model | None" = None,
    *,
    title: str = "",
    level: float = 0.9,
    names: tuple[str, str] = ("release.qfr", "model.qfm"),
    progress: bool = False,
) -> None:
    """Write a report as one HTML file: what was protected and at what cost, and what the model says and how surely.

    Args:
        path: The file; one that is there is replaced.
        release: The release.
        model: What was learned from it; without one, it is learned here by the default method.
        title: The heading.
        level: The confidence of all intervals.
        names: The file names that the report's commands to check and rerun show.
        progress: Whether a line on the error stream shows that it goes on.

    Raises:
        Incomplete: The release waits for a signature.
        CannotLearn: There is no model, and noise outweighs the release.
        FileError: The file cannot be written.
        Error: The release and the model do not fit together, or ``level`` is not between 0 and 1.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"sex": ["f", "m"], "smokes": ["no", "yes"]})
    >>> tables = {("sex", "smokes"): [[500, 90], [310, 200]]}
    >>> release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1100)
    >>> qf.write_report("smoking.html", release, title="Who smokes")
    """
    check_writable(path)
    html = report_html(release, model, title=title, level=level, names=names, progress=progress)
    write_atomically(path, html.encode(), time=release.created)


def report_html(
    release: "Release",
    model: "Model | None" = None,
    *,
    title: str = "",
    level: float = 0.9,
    names: tuple[str, str] = ("release.qfr", "model.qfm"),
    progress: bool = False,
) -> str:
    """The report as text; see :func:`write_report`."""
    from quietfield.output.report.contents import gather
    from quietfield.output.report.pages import render

    if model is None:
        model = fit(release, progress=progress)
    with show_status("report ...", progress) as say:
        return render("report.html", gather(release, model, title, level, names, say))
