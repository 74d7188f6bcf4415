"""Which pages the site has, by who reads them; a name that ends in / is a folder of docs, whole."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ROOT / "docs"
GENERATED = ("client", "commands", "configuration", "errors", "policies")
"""Pages of reference/, which are made when the site is built."""
DOORS: dict[str, tuple[str, ...]] = {
    "Use it": (
        "guide/concepts",
        "guide/submit",
        "guide/watch",
        "guide/parallel",
        "guide/queues",
        "guide/reservations",
        "guide/mpi",
        "guide/exec",
        "guide/changing",
        "guide/troubleshooting",
        "guide/scripts",
        "guide/from-slurm",
        "guide/from-pbs",
        "guide/dependencies",
        "guide/requirements",
        "guide/gpus",
        "guide/urgency",
        "guide/quiet-hours",
        "guide/notify",
        "guide/exit-codes",
        "reference/commands",
        "reference/errors",
        "reference/client",
    ),
    "Run a site": (
        "guide/configuration",
        "reference/configuration",
        "guide/resource-kinds",
        "guide/joining",
        "guide/network",
        "guide/operators",
        "guide/security",
        "SECURITY",
        "guide/owners",
        "guide/prolog",
        "guide/backup",
        "guide/history",
        "guide/logs",
        "guide/back-ends",
        "guide/policies",
        "guide/simulate",
        "performance",
        "CHANGELOG",
    ),
    "Understand it": (
        "architecture",
        "glossary",
        "guide/comparison",
        "papers",
        "spec/",
        "experiments/",
    ),
    "Change it": (
        "guide/three-changes",
        "reference/policies",
        "adr/",
    ),
}
"""The doors of the site, in the order in which a page stands in the navigation."""
FOLDER_TITLES = {"spec/": "Specifications", "experiments/": "Experiments at scale"}
"""Of folders without a README.md of their own."""


def folder_index(folder: str) -> str:
    """The page that stands for a folder: its README.md, or a title, and the list of its pages."""
    readme = DOCUMENTS / folder / "README.md"
    title = FOLDER_TITLES.get(folder, "")
    text = readme.read_text(encoding="utf-8") if readme.exists() else f"# {title}\n"
    pages = sorted(path.stem for path in (DOCUMENTS / folder).glob("*.md"))
    shown = "hidden:" if readme.exists() else "maxdepth: 1"
    return f"{text}\n{toctree([page for page in pages if page != 'README'], f':{shown}')}"


def toctree(pages: list[str], *options: str) -> str:
    """The directive that puts pages into the navigation."""
    return "\n".join(["```{toctree}", *options, "", *pages, "```", ""])


def doors() -> str:
    """The navigation of the first page: one list for each door."""
    return "\n".join(
        toctree(
            [f"{page}index" if page.endswith("/") else page for page in pages],
            f":caption: {door}",
            ":hidden:",
        )
        for door, pages in DOORS.items()
    )
