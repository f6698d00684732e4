"""Cut the cffi declarations out of the C headers. Run by meson alone; not installed.

build_cdef.py SOURCE_ROOT LIST_OF_HEADERS CDEF PRELUDE: the list names the headers, one a line, each
after those that it needs. A header's exported part is between `/* cdef begin */` and `/* cdef end
*/`; a `#define NAME value` in it becomes `#define NAME ...`, which makes cffi ask the compiler for
the value. A plain decimal stays as it is, because cffi must know the length of an array in a struct
(the compiler checks it all the same). The prelude, what the generated C file includes, is made from
the same list. A file that is no header goes into the declarations whole, and not into the prelude:
what Python defines and C calls.
"""

import pathlib
import re
import sys

PART = re.compile(r"/\* cdef begin \*/\n(.*?)/\* cdef end \*/", re.DOTALL)
DEFINE = re.compile(r"^#define\s+(\w+)(?![ \t]+\d+[ \t]*$)[ \t]+.*$", re.MULTILINE)


def cut(text: str) -> str:
    """The exported part of one header's text."""
    parts = "".join(PART.findall(text)).replace("\\\n", " ")
    parts = re.sub(r"/\*.*?\*/", "", parts, flags=re.DOTALL)
    return DEFINE.sub(r"#define \1 ...", parts)


def main(root: str, listing: str, cdef: str, prelude: str) -> None:
    names = pathlib.Path(listing).read_text(encoding="utf-8").split()
    texts = []
    for name in names:
        text = (pathlib.Path(root) / name).read_text(encoding="utf-8")
        texts.append(cut(text) if name.endswith(".h") else text)
    pathlib.Path(cdef).write_text("\n".join(texts), encoding="utf-8")
    includes = [f'#include "{name}"\n' for name in names if name.endswith(".h")]
    pathlib.Path(prelude).write_text("".join(includes), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
