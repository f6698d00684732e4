"""What stands in the header and the tables of an executable or a library, of 64 bits."""

import mmap
import struct

_HEADER_BYTES = 64
_PT_INTERP = 3


def is_elf(path: str) -> bool:
    """Whether it is an executable or a library of 64 bits."""
    try:
        with open(path, "rb") as file:
            return file.read(5) == b"\x7fELF\x02"
    except OSError:
        return False


def loader(path: str) -> str:
    """The loader that an executable starts with; empty for libraries and static executables."""
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
            (table_offset,) = struct.unpack_from("<Q", header, 32)
            entry_bytes, num_entries = struct.unpack_from("<HH", header, 54)
            file.seek(table_offset)
            table = file.read(entry_bytes * num_entries)
            for start in range(0, len(table), entry_bytes):
                kind, _, offset, _, _, num_bytes = struct.unpack_from("<IIQQQQ", table, start)
                if kind == _PT_INTERP:
                    file.seek(offset)
                    return file.read(num_bytes).rstrip(b"\0").decode()
    except (OSError, ValueError, struct.error):
        pass
    return ""


def names(path: str, name: str) -> bool:
    """Whether it has a name in a table of strings."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            return content[:4] == b"\x7fELF" and content.find(b"\0" + name.encode() + b"\0") >= 0
    except (OSError, ValueError):
        return False
