"""docs/experiments/paper-001.md says what its JSON says, and the order is the paper's."""

import json
from pathlib import Path

PLACE = Path(__file__).parents[2] / "docs" / "experiments"
PAGE = (PLACE / "paper-001.md").read_text()
RESULT = json.loads((PLACE / "paper-001.json").read_text())


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rows_of_figure_6() -> list[str]:
    return [
        row(stop_after, f"{reach['final']:.1%}".replace("%", " %"), str(reach["rounds"]))
        for stop_after, reach in RESULT["fig6"].items()
    ]


def rows_of_figure_7() -> list[str]:
    rows = []
    for label, reaches in RESULT["fig7"].items():
        final = [f"{reach['final']:.1%}".replace("%", " %") for reach in reaches.values()]
        rows.append(row(f"{label}: know in the end", *final))
        rows.append(row("rounds to 99 % of that", *(str(r["rounds"]) for r in reaches.values())))
    return rows


def rows_of_figure_8() -> list[str]:
    rows = []
    for count, used in RESULT["fig8"].items():
        parts = [used[system] / used["oracle"] for system in ("gossip", "manager", "manager_60s")]
        gossip, manager, told = (f"{part:.3f}" for part in parts)
        ratio = f"{used['gossip_to_manager']:.3f}"
        rows.append(row(f"{int(count):,}", f"{used['oracle']:.3f}", gossip, manager, ratio, told))
    return rows


def rows_of_figure_9() -> list[str]:
    return [
        row(f"{float(load):.0%}", *(f"{each['gossip_to_manager']:.3f}" for each in used.values()))
        for load, used in RESULT["fig9"].items()
    ]


def rows_of_table_1() -> list[str]:
    return [
        row(
            schedulers,
            f"{each['utilisation']:.3f}",
            f"{each['paper']:.3f}",
            f"{each['refused']:.1%}".replace("%", " %"),
        )
        for schedulers, each in RESULT["table1"].items()
    ]


def rows_of_agreement() -> list[str]:
    rows = []
    for count, found in RESULT["agreement"].items():
        product, arrays = (
            ", ".join(f"{each:.3f}" for each in found[tables]) for tables in ("product", "arrays")
        )
        rows.append(row(f"{int(count):,}", f"{found['hours']:.0f}", product, arrays))
    return rows


def test_the_page_has_each_row_of_the_result():
    rows = [*rows_of_figure_6(), *rows_of_figure_7(), *rows_of_figure_8()]
    rows += [*rows_of_figure_9(), *rows_of_table_1(), *rows_of_agreement()]
    assert [each for each in rows if each not in PAGE] == []


def test_the_systems_come_in_the_order_of_the_paper():
    ratios = {int(n): used["gossip_to_manager"] for n, used in RESULT["fig8"].items()}
    assert all(ratio < 1 for count, ratio in ratios.items() if count <= 100)
    assert all(ratio >= 1 for count, ratio in ratios.items() if count >= 1000)
    used = [each["utilisation"] for each in RESULT["table1"].values()]
    assert used == sorted(set(used))
    reach = [each["final"] for each in RESULT["fig7"]["paper, stop after 1"].values()]
    assert reach == sorted(reach, reverse=True)
