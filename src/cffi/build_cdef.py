"""Cut the cffi declarations out of the C headers. Run by meson alone; not installed.

build_cdef.py SOURCE_ROOT CDEF PRELUDE FILE...: of the headers named, those with an exported part
are taken, each after those that it includes. The exported part is between `/* cdef begin */` and
`/* cdef end */`; of a public header, what stands in `extern "C"`. A `#define NAME value` in it
becomes `#define NAME ...`, which makes cffi ask the compiler for the value. A plain decimal stays
as it is, because cffi must know the length of an array in a struct (the compiler checks it all the
same). Macros of text or with arguments are left out. The prelude, what the generated C file
includes, is made from the same headers. A file that is no header goes into the declarations whole,
and not into the prelude: what Python defines and C calls.
"""

import pathlib
import re
import sys

PART = re.compile(r"/\* cdef begin \*/\n(.*?)/\* cdef end \*/", re.DOTALL)
PUBLIC = re.compile(r'^extern "C" {\n#endif\n(.*)^#ifdef __cplusplus\n', re.DOTALL | re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
DEFINE = re.compile(r"^#define\s+(\w+)(?![ \t]+\d+[ \t]*$)[ \t]+.*$", re.MULTILINE)


def exported(text: str) -> list[str]:
    """The exported parts of one header's text."""
    return PUBLIC.findall(text) or PART.findall(text)


def cut(text: str) -> str:
    """The exported part of one header's text."""
    parts = "".join(exported(text)).replace("\\\n", " ")
    parts = re.sub(r"/\*.*?\*/", "", parts, flags=re.DOTALL)
    parts = re.sub(r'^#define\s+\w+(\(|\s+").*\n', "", parts, flags=re.MULTILINE)
    return DEFINE.sub(r"#define \1 ...", parts)


def exporting(root: pathlib.Path, headers: list[str]) -> list[str]:
    """The headers that have an exported part, each after those that it includes."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        text = (root / name).read_text(encoding="utf-8")
        for included in INCLUDE.findall(text):
            if (root / included).exists():
                visit(included)
        if name in headers and exported(text):
            order.append(name)

    for header in headers:
        visit(header)
    return order


def main(root: str, cdef: str, prelude: str, *names: str) -> None:
    source = pathlib.Path(root)
    headers = exporting(source, [name for name in names if name.endswith(".h")])
    texts = [cut((source / name).read_text(encoding="utf-8")) for name in headers]
    texts += [
        (source / name).read_text(encoding="utf-8") for name in names if not name.endswith(".h")
    ]
    pathlib.Path(cdef).write_text("\n".join(texts), encoding="utf-8")
    includes = [f'#include "{name}"\n' for name in headers]
    pathlib.Path(prelude).write_text("".join(includes), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
