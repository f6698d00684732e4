"""Writes a program as one readable Python file that needs pagewire only to be launched.

The file holds the functions of the steps that occur, what these use, and the steps as data.
"""

import ast
import dataclasses
import functools
import importlib.resources
import pprint
from collections.abc import Iterator, Sequence

from pagewire.cli.checks.stress.draw import Program, Step

_MODULES = ("kit", "forms", "pressure", "messages", "objects", "collectives", "windows", "groups")
"""Of the folder steps, in the order in which they use each other."""

_OWN = "pagewire.cli.checks.stress.steps"


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    """One definition of a module: the name that it gives, and the names that it uses."""

    name: str
    text: str
    uses: frozenset[str]
    is_import: bool = False


def source(program: Program, headline: str, limit_s: int) -> str:
    """The text of the file; headline: its docstring."""
    pieces = _pieces()
    needed = {"run_program"} | {step.kind for step in _all_steps(program.steps)}
    while True:
        more = {name for each in pieces if each.name in needed for name in each.uses} | needed
        if more == needed:
            break
        needed = more
    chosen = [each for each in pieces if each.name in needed]
    imports = sorted({each.text for each in chosen if each.is_import})
    definitions = [each.text for each in chosen if not each.is_import]
    headline = headline.replace("\\", "\\\\").replace('"""', "'''")
    return "\n".join(
        [
            f'"""{headline}\n"""',
            "",
            *imports,
            "",
            "\n\n".join(definitions),
            "",
            f"SEED = {program.seed}",
            "",
            "# Number, how many further steps it stays open for, communicator, what, with what.",
            f"STEPS = {_literal(program.steps, 0)}",
            "",
            'if __name__ == "__main__":',
            f"    run_program(SEED, STEPS, {limit_s})",
            "",
        ]
    )


def _literal(steps: Sequence[Step], depth: int) -> str:
    margin = "    " * (depth + 1)
    lines = ["["]
    for step in steps:
        lines.append(f"{margin}({step.number}, {step.hold}, {step.on!r}, {step.kind}, {{")
        for name, value in step.arguments.items():
            if name == "parts":
                parts = ", ".join(_literal(part, depth + 1) for part in value)
                text = f"[{parts}]"
            else:
                text = pprint.pformat(value, width=90, compact=True)
                text = text.replace("\n", f"\n{margin}        ")
            lines.append(f"{margin}    {name!r}: {text},")
        lines.append(f"{margin}}}),")
    return "\n".join([*lines, "    " * depth + "]"])


def _all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for part in step.arguments.get("parts", []):
            yield from _all_steps(part)


@functools.cache
def _pieces() -> tuple[_Piece, ...]:
    folder = importlib.resources.files(_OWN)
    texts = [folder.joinpath(f"{module}.py").read_text() for module in _MODULES]
    return tuple(piece for text in texts for piece in _pieces_of(text))


def _pieces_of(text: str) -> Iterator[_Piece]:
    """The definitions of a module; the string behind an assignment explains it, and goes along."""
    body = ast.parse(text).body[1:]  # without the docstring
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _Piece(alias.asname or alias.name, _import(alias), frozenset(), True)
        elif isinstance(node, ast.ImportFrom):
            if str(node.module).startswith(_OWN):
                continue
            for alias in node.names:
                yield _Piece(alias.name, f"from {node.module} {_import(alias)}", frozenset(), True)
        elif not isinstance(node, ast.Expr):
            code = ast.get_source_segment(text, node) or ""
            if isinstance(following, ast.Expr):
                code += "\n" + (ast.get_source_segment(text, following) or "")
            used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            yield _Piece(_name(node), code, frozenset(used))
        elif not isinstance(node.value, ast.Constant):
            raise TypeError(f"cannot copy: {ast.unparse(node)}")


def _import(alias: ast.alias) -> str:
    return f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")


def _name(node: ast.stmt) -> str:
    """The name that a statement defines, or changes an attribute of."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    target: ast.expr = ast.Constant(None)
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign):
        target = node.target
    while isinstance(target, ast.Attribute):
        target = target.value
    if not isinstance(target, ast.Name):
        raise TypeError(f"cannot copy: {ast.unparse(node)}")
    return target.id
