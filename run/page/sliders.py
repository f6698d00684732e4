"""Sliders for the parts of the machine: the run time that their curves predict moves with them. All
is in the page; the script asks nobody."""

import json
from collections.abc import Mapping
from math import log2
from typing import Any

from pagewire.run.page.markup import Html, element, join, note, table
from pagewire.run.page.sections import section

_STEPS = 20
"""Of a slider, from one factor to its double."""

# Neither < nor & stands in it: the page is XML too.
_SCRIPT = """
const box = document.getElementById("sliders");
const data = JSON.parse(box.dataset.curves);
const knobs = Array.from(box.querySelectorAll("input"));
function effect(knob) {
  const at = 2 ** (Number(knob.value) / data.steps), curve = data.groups[knob.name];
  const right = Math.max(1, data.factors.findIndex(each => each >= at - 1e-9));
  const from = data.factors[right - 1], span = data.factors[right] - from;
  const part = (at - from) / span;
  knob.nextElementSibling.textContent = "x " + at.toPrecision(3);
  return curve[right - 1] + part * (curve[right] - curve[right - 1]) - data.run_s;
}
function show() {
  const run_s = knobs.reduce((sum, knob) => sum + effect(knob), data.run_s);
  const percent = 100 * (run_s / data.run_s - 1);
  box.querySelector("output").textContent = (1e3 * run_s).toFixed(3) + " ms (" +
    (percent >= 0 ? "+" : "") + percent.toFixed(2) + " %)";
}
knobs.forEach(knob => knob.addEventListener("input", show));
box.querySelector("button").addEventListener("click",
  () => { knobs.forEach(knob => { knob.value = 0; }); show(); });
show();
"""


def of_costs(costs: Mapping[str, Any]) -> Html:
    """Where the time went, by part and by cost, and the sliders; costs: `replay.costs` of a
    result."""
    limit = f"run loses {100 * costs['loss']:g} % at"
    told = note(
        f"A cost's share is what the run of {costs['run_s'] * 1e3:,.3f} ms gains when costs are "
        "doubled one after the other, and halved in the reverse order; together "
        f"{100 * costs['explained']:.2f} %. {costs['replays']:,} replays have found this."
    )
    by_part = table(["part", "of the time", limit], map(_row, costs["groups"]))
    by_cost = table(["cost", "value", "of the time", limit], map(_row_of_cost, costs["costs"]))
    return section(
        "costs",
        "Where the time went",
        told,
        by_part,
        _sliders(costs) if costs["curves"]["groups"] else None,
        element("details", element("summary", "Each cost"), element("div", by_cost, class_="wide")),
    )


def _row(each: Mapping[str, Any]) -> list[Any]:
    tolerated = "never" if each["tolerated_factor"] is None else each["tolerated_value"]
    share = element("td", f"{100 * each['share']:.2f} %", data_value=each["share"])
    return [each["name"], share, tolerated]


def _row_of_cost(each: Mapping[str, Any]) -> list[Any]:
    name, *rest = _row(each)
    return [name, each["value"], *rest]


def _sliders(costs: Mapping[str, Any]) -> Html:
    curves = costs["curves"]
    data = {key: curves[key] for key in ("factors", "groups")}
    data |= {"run_s": costs["run_s"], "steps": _STEPS}
    knobs = [
        element(
            "label",
            element("span", name, class_="name"),
            _slider(name, curves["factors"]),
            element("span", "x 1"),
        )
        for name in curves["groups"]
    ]
    least, most = curves["factors"][0], curves["factors"][-1]
    checked = (
        f"Each part was replayed by itself at x {least:g} to x {most:g}; effects are added. "
        f"Against {len(curves['checks'])} replays with several parts moved, half and twice as "
        f"slow, the sum was at most {100 * curves['worst']:.2f} % off."
    )
    return join(
        element("h3", "If a part took longer"),
        element(
            "div",
            element("p", "Predicted run time: ", element("output", "")),
            *knobs,
            element("button", "All as they are", type="button"),
            id="sliders",
            data_curves=json.dumps(data),
        ),
        note(checked),
        element("script", Html(_SCRIPT)),
    )


def _slider(name: str, factors: list[float]) -> Html:
    least, most = (round(_STEPS * log2(each)) for each in (factors[0], factors[-1]))
    return element("input", type="range", name=name, min=least, max=most, value=0)
