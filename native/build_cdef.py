"""Cut the cffi declarations out of the C headers.

Called by meson: build_cdef.py SOURCE_ROOT EXPORTED_HEADERS OUTPUT. A header's exported part stands
between `/* cdef begin */` and `/* cdef end */`; a `#define NAME value` in it becomes
`#define NAME ...`, which makes cffi ask the compiler for the value. A plain decimal stays as it is,
because cffi must know the length of an array in a struct (the compiler checks it all the same).
"""

import pathlib
import re
import sys

PART = re.compile(r"/\* cdef begin \*/\n(.*?)/\* cdef end \*/", re.DOTALL)
DEFINE = re.compile(r"^#define\s+(\w+)(?![ \t]+\d+[ \t]*$)[ \t]+.*$", re.MULTILINE)


def cut(text: str) -> str:
    """The exported part of one header's text."""
    parts = "".join(PART.findall(text))
    parts = re.sub(r"/\*.*?\*/", "", parts, flags=re.DOTALL)
    return DEFINE.sub(r"#define \1 ...", parts)


def main(root: str, listing: str, output: str) -> None:
    names = pathlib.Path(listing).read_text(encoding="utf-8").split()
    texts = [cut((pathlib.Path(root) / name).read_text(encoding="utf-8")) for name in names]
    pathlib.Path(output).write_text("\n".join(texts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
