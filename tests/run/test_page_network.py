"""Pictures of links on a page: places, colours, words, and no more than a page has room for."""

import json
from xml.etree import ElementTree

import json_schemas
import pytest
from cli_runs import reported
from page_file import text_of, values

from pagewire.network.picture import SQUARES_MAX, picture
from pagewire.network.topology import Topology
from pagewire.run.page import network

PROGRAM = """
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
data = np.ones(64 * 1024, np.uint8)
if world.Get_rank():
    world.Send(data, 0)
else:
    world.Recv(data, 1)
    world.Recv(data, 2)
"""


def pictured(text, num_nodes, busy):
    """busy: shares by (source, target); all others are unused."""
    with Topology(text, num_nodes) as topology:
        numbers = {
            number: busy[link.source, link.target]
            for number in range(topology.num_links)
            if (link := topology.link(number)).cable == 0 and (link.source, link.target) in busy
        }
        return picture(topology.c, text, 4, numbers)


def drawn(own, most=0.5):
    hottest = {"name": "a to b", "busy": most, "busiest": 1.25, "busiest_at_s": 0.002}
    document = {
        "model": "private", "topology": "some", "links": 4, "used": 2, "mean_busy": 0.1,
        "shared": 1, "hottest": [{**hottest, "blocks": 3, "bytes": 9, "pairs": 2}], "picture": own,
    }  # fmt: skip
    return ElementTree.fromstring(f"<div>{network.of_links(document)}</div>")


def paths(part):
    """By colour, how many rectangles."""
    return {each.get("class"): each.get("d").count("M") for each in part.iter("path")}


def test_links_of_a_torus_stand_between_their_squares():
    own = pictured("torus:4x3", 12, {(0, 1): 0.5, (0, 3): 0.25, (4, 0): 0.1, (1, 9): 0.2})
    assert (own["sides"], own["step"], own["wraps"]) == ([4, 3], [1, 1], True)
    assert own["right"][0] == 0.5 and own["left"][0] == 0.25 and own["up"][1] == 0.2
    assert own["up"][4] == 0.1 and sum(
        map(sum, (own[way] for way in ("up", "down")))
    ) == pytest.approx(0.3)
    page = drawn(own)
    assert paths(page) == {"none": 12, "h15": 1, "h8": 1, "h3": 1, "h6": 1}
    assert "router 0 at (0, 0), right" in text_of(page)
    (svg,) = page.iter("svg")
    assert svg.get("role") == "img" and "router 0 at (0, 0), right, 50%" in svg.get("aria-label")


def test_dimensions_beyond_two_are_panels():
    own = pictured("mesh:2x2x3", 12, {(0, 4): 0.5, (4, 5): 0.5})
    page = drawn(own)
    assert [each.text for each in page.iter("figcaption")] == ["z 0", "z 1", "z 2"]
    assert own["inside"] == [0.5] + [0.0] * 11 and own["right"][4] == 0.5


def test_boards_are_squares_and_one_board_a_matrix():
    own = pictured("qfdb", 16, {(1, 0): 0.3, (0, 4): 0.5})
    assert (own["of"], own["sides"]) == ("QFDB", [4])
    assert own["inside"][0] == 0.3 and own["right"][0] == 0.5
    own = pictured("qfdb", 3, {(1, 0): 0.3})
    assert own == {"kind": "matrix", "names": ["F0", "F1", "F2", "F3"], "cells": [[1, 0, 0.3]]}
    assert paths(drawn(own)) == {"none": 15, "h15": 1}


def test_levels_of_a_fat_tree_are_strips():
    own = pictured("fat-tree:2;4,4;1,2;1,1", 16, {(5, 17): 0.5, (20, 16): 0.25})
    names = [row["name"] for row in own["rows"]]
    assert names == ["nodes to level 1", "level 1 to nodes", "level 1 to level 2",
                     "level 2 to level 1"]  # fmt: skip
    assert own["rows"][0]["busy"][5] == 0.5 and own["rows"][3]["busy"][0] == 0.25
    assert sum(sum(row["busy"]) for row in own["rows"]) == 0.75
    assert len(list(drawn(own).iter("svg"))) == 4


def test_other_topologies_are_matrices():
    own = pictured("dragonfly:3,1;1,1;2,1;2", 12, {(0, 1): 0.5, (6, 0): 0.25})
    assert own["names"] == ["0", "1", "2", "3", "4", "5", "nodes"]
    assert own["cells"] == [[0, 1, 0.5], [6, 0, 0.25]]


@pytest.mark.parametrize("text", ["torus:64x64", "torus:16x16x16", "torus:4x32x32", "qfdb",
                                  "fat-tree:3;16,16,16;1,16,16;1,1,1", "mesh:8x8x8x8"])  # fmt: skip
def test_thousands_of_nodes_make_a_small_picture(text):
    with Topology(text, 4096) as topology:
        busy = {number: 1 + number % 97 for number in range(topology.num_links)}
        own = picture(topology.c, text, 4, busy)
    if own["kind"] == "grid":
        assert len(own["inside"]) <= SQUARES_MAX
        assert max(max(own["inside"]), max(own["right"])) == 97
    assert len(json.dumps(own)) < 60_000
    page = str(network.of_links({**LIVE, "picture": own}))
    assert len(page) < 200_000


LIVE = {
    "model": "links", "topology": "some", "links": 4, "used": 2, "mean_busy": 0.1, "hottest": [],
    "long_waits": 0,
}  # fmt: skip


def test_the_table_has_what_the_report_has():
    page = drawn(pictured("mesh:2x2", 4, {(0, 1): 0.5}))
    assert values(page, "td")[:2] == [0.5, 1.25]
    assert "above 100% blocks would have waited" in text_of(page)
    assert "0% 50% of the run" in text_of(page)


def test_links_without_blocks_have_no_picture():
    page = drawn(pictured("mesh:2x2", 4, {}))
    assert not list(page.iter("svg"))


def test_a_live_run_reports_its_links(tmp_path):
    """Ranks 1 and 2 send 64 KiB each over the link from rank 1 to 0: four blocks, or five where
    the buffer does not begin at a page."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = ["--compute", "none", "--memory", "pretouch", "--set", "network.topology=mesh:3"]
    shown, document = reported(tmp_path, 3, *words, str(program))
    json_schemas.check("report", document)
    (hottest,) = document["links"]["hottest"]
    assert (hottest["name"], hottest["pairs"]) == ("1 to 0", 2)
    assert hottest["bytes"] >= 2 * 64 * 1024 * 288 // 256
    assert hottest["blocks"] in (8, 9, 10)
    own = document["ranks"][2]["demands"]["0"]
    assert own["span_windows"] == 1 and own["most_bytes"] == {"0": own["bytes"]}
    assert "1 to 0: 2 pairs ask for" in shown
