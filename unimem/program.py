"""Executable files that remote forks have started, for hosts in Python: `Runner` is what their
thread of the node runs. The process and its link are C's (unimem/program.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewire.native import check, ffi, lib

if TYPE_CHECKING:
    from pagewire.unimem.gsas import Gsas

_TEXT_BYTES = 256


class ProgramError(RuntimeError):
    """A program that a remote fork has started died; its log has its output."""


class Runner:
    """Starts the file, asks for the operations that it wants, and waits for its end."""

    def __init__(self, file: str) -> None:
        self.__module__, self.__qualname__ = __name__, file
        self._file = file

    def refusal(self) -> int:
        """0, or what a fork says: it cannot be started."""
        return int(lib.pw_program_check(self._file.encode()))

    def __call__(self, thread: Gsas) -> None:
        facts, out = ffi.new("pw_program_facts *"), ffi.new("pw_program **")
        facts.id, facts.argument = thread.id, thread.argument
        facts.node, facts.num_nodes = thread.node, thread.num_nodes
        check(lib.pw_program_start(self._file.encode(), facts, out), self._file)
        program, is_over = out[0], False
        text = ffi.new("char[]", _TEXT_BYTES)
        try:
            self._serve(program, thread)
            is_over = True
        finally:
            if not is_over:
                lib.pw_program_kill(program)
            is_well = lib.pw_program_end(program, text)
        if not is_well:
            raise ProgramError(ffi.string(text).decode(errors="replace"))

    def _serve(self, program: object, thread: Gsas) -> None:
        request, answer = ffi.new("pw_program_request *"), ffi.new("pw_program_answer *")
        while lib.pw_program_next(program, request):
            page = thread.do_for_program(request, answer)
            lib.pw_program_answer_it(program, answer, page)
