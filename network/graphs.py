"""Topologies of a user's own: a graph as GraphML or dot, which networkx reads, as a file that C
reads (`file:PATH`): lines `routers N`, `place ROUTER` for each place in order, `link ROUTER
ROUTER`.

Vertices with the attribute `nodes` (a number, by default 1 for each) have so many places; an edge
with the attribute `cables` is so many links.
"""

import atexit
import functools
import pathlib

from pagewire.native.settings import ConfigError

SUFFIXES = {".graphml": "GraphML", ".xml": "GraphML", ".dot": "dot", ".gv": "dot"}


def is_graph(text: str) -> bool:
    """Is this, given as a topology, the path of a graph?"""
    return pathlib.Path(text).suffix.lower() in SUFFIXES


def prepared(path: str) -> str:
    """The text of a topology that is this graph, for C in this process and in those that it starts
    and waits for. Raises ConfigError."""
    try:
        changed_ns = pathlib.Path(path).stat().st_mtime_ns
    except OSError as error:
        raise ConfigError(f"topology '{path}': {error.strerror}") from None
    return _converted(path, changed_ns)


@functools.cache
def _converted(path: str, changed_ns: int) -> str:
    import tempfile  # takes long to load

    folder = tempfile.TemporaryDirectory(prefix="pagewire-network-")
    atexit.register(folder.cleanup)
    return convert(path, f"{folder.name}/{pathlib.Path(path).stem}")


def convert(path: str, out: str) -> str:
    """Write the file for C; the text of the topology. Raises ConfigError."""
    import networkx  # loads slowly

    kind = SUFFIXES[pathlib.Path(path).suffix.lower()]
    try:
        if kind == "dot":
            graph = networkx.nx_pydot.read_dot(path)
        else:
            graph = networkx.read_graphml(path)
    except ImportError:
        raise ConfigError(
            f"topology '{path}': networkx reads dot by pydot; pip install pydot, or give GraphML"
        ) from None
    except Exception as error:  # noqa: BLE001, its readers raise what the parsers below them do
        raise ConfigError(f"topology '{path}': no {kind} that networkx can read: {error}") from None
    order = {vertex: number for number, vertex in enumerate(graph.nodes)}
    lines = [f"routers {len(order)}"]
    for vertex, own in graph.nodes(data=True):
        lines += [f"place {order[vertex]}"] * _count(path, f"vertex {vertex}", own, "nodes")
    pairs: dict[tuple[int, int], int] = {}
    for source, target, own in graph.edges(data=True):
        pair = min(order[source], order[target]), max(order[source], order[target])
        cables = _count(path, f"edge {source}, {target}", own, "cables")
        both = graph.is_directed() and graph.has_edge(target, source)
        pairs[pair] = max(pairs.get(pair, 0), cables) if both else pairs.get(pair, 0) + cables
    for (source, target), cables in pairs.items():
        lines += [f"link {source} {target}"] * cables
    pathlib.Path(out).write_text("\n".join(lines) + "\n", encoding="ascii")
    return f"file:{out}"


def _count(path: str, what: str, attributes: dict[str, object], name: str) -> int:
    text = str(attributes.get(name, 1)).strip('"')
    if text.isdecimal():
        return int(text)
    raise ConfigError(f"topology '{path}', {what}: {name} = '{text}' is no number")
