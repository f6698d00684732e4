"""The whole page of a run or a comparison: see __init__.py."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError
from pagewire.run.page import charts, path, sections, sliders, warnings
from pagewire.run.page.markup import Html, element, figure, join, note, table
from pagewire.run.page.style import CSS

_FIGURES = {
    "translation_faults": "faults",
    "err_messages": "ERRs",
    "timeouts": "timeouts",
    "pages_paged_in": "pages paged in",
    "pinned_peak_bytes": "pinned peak (B)",
    "resident_peak_bytes": "resident peak (B)",
    "copied_bytes": "copied (B)",
}


def write(path: str, document: Mapping[str, Any]) -> None:
    """Write the page of a report, or of a comparison's result; raises OutputError."""
    write_file(path, page(document))


def convert(source: str, path: str) -> None:
    """The page of a saved JSON; raises ConfigError when that is none of ours, OutputError."""
    try:
        with open(source, encoding="utf-8") as file:
            text = page(json.load(file))
    except OSError as error:
        raise ConfigError(f"'{source}' cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise ConfigError(
            f"'{source}' is no report: give the file that --json of run, launch or compare wrote"
        ) from None
    write_file(path, text)


def page(document: Mapping[str, Any]) -> str:
    """The page as text."""
    is_comparison = "entries" in document
    body = _comparison(document) if is_comparison else _run(document)
    title = (
        f"{document['program'] or 'program'}: pagewire {'compare' if is_comparison else 'report'}"
    )
    return whole(title, body)


def whole(title: str, body: Html) -> str:
    """A document of ours as text."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(CSS)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, element('body', body), lang='en')}\n"


def _run(report: Mapping[str, Any]) -> Html:
    subtitle = f"{len(report['ranks'])} ranks, {report['settings'].get('run.transport', '')}"
    return join(_title(report["program"], subtitle), sections.of_run(report))


def _title(program: str, subtitle: str) -> Html:
    return join(element("h1", program or "program"), note(subtitle))


def _comparison(result: Mapping[str, Any]) -> Html:
    entries = result["entries"]
    ended = [entry for entry in entries if "failure" not in entry]
    found = [text for entry in ended for text in warnings.of_entry(name_of(entry), entry)]
    found += _all_alike(ended)
    found += [f"{name_of(each)}: {each['failure']}" for each in entries if "failure" in each]
    replayed = result["compute"] == "replay"
    for sentence in dict.fromkeys(
        text for each in result["reports"] for text in warnings.of_run(each, replayed=replayed)
    ):
        found.append(sentence)
    runs = [
        element(
            "details",
            element("summary", f"Run: {name_of(entry)}"),
            sections.of_run(report),
            data_run=name_of(entry),
        )
        for entry, report in zip(ended, result["reports"], strict=True)
    ]
    rows = "rows" if any(entry.get("sweep") for entry in entries) else "strategies"
    costs, way = (result.get("replay", {}).get(key) for key in ("costs", "path"))
    subtitle = f"{result['ranks']} ranks, compute {result['compute']}, {len(entries)} {rows}"
    if "incomplete" in result:
        left = result["incomplete"]
        found.insert(
            0, f"Incomplete: {len(left['missing_runs'])} runs are missing ({left['reason']})."
        )
    return join(
        _title(result["program"], subtitle),
        _slowdowns(ended, result.get("baseline", "")),
        sections.notices(found),
        sliders.of_costs(costs) if costs else None,
        path.of_path(way) if way else None,
        *runs,
    )


def name_of(entry: Mapping[str, Any]) -> str:
    """A row's name: the memory strategy, or the unit that pins by itself; the policy of part; the
    values of swept settings."""
    name: str = entry["memory"] if entry["translation"] == "smmu" else entry["translation"]
    swept = [f"{setting}={text}" for setting, text in entry.get("sweep", {}).items()]
    return ", ".join([f"{name}/{entry['policy']}" if name == "part" else name, *swept])


def _slowdowns(ended: Sequence[Mapping[str, Any]], baseline: str) -> Html:
    rows = []
    for idx, entry in enumerate(ended):
        repeated = entry.get("repetitions", {})
        time_s = repeated.get("mean", entry)["virtual_time_s"]
        text = f"{time_s * 1e3:,.3f} ms"
        if "deviation" in repeated:
            text += f" ± {repeated['deviation']['virtual_time_s'] * 1e3:,.3f}"
        is_reference = entry["baseline"] == name_of(entry) if "baseline" in entry else idx == 0
        if not is_reference and entry["slowdown"] is not None:
            text += f" ({entry['slowdown']:+.2%})"
        rows.append(charts.Bar(name_of(entry), [time_s], text))
    cells = [[name_of(entry), *(figure(entry[key]) for key in _FIGURES)] for entry in ended]
    return sections.section(
        "slowdowns",
        "Virtual time of each run",
        note(f"In brackets the slowdown against {baseline or 'the first row'}."),
        charts.bars(rows),
        element("div", table(("run", *_FIGURES.values()), cells), class_="wide"),
    )


def _all_alike(ended: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [name_of(entry) for entry in ended if not all(entry["received_alike"])]
    if not names:
        return []
    return [f"Other bytes arrived than in the first row's run: {', '.join(names)}."]
