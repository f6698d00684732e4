"""What stands in the memory of a NIC with miNI or its base system [MINI 1.1, 1.2, 3]."""

from pagewire.native import ffi, lib

PARTS = {
    "code_bytes": "code",
    "buffer_bytes": "buffers",
    "vmh_bytes": "page translations",
    "cbh_bytes": "buffers' descriptors",
    "imported_bytes": "imported buffers",
    "process_bytes": "processes",
    "total_bytes": "all",
}
"""Parts of the NIC's memory, by the fields of struct pw_nic_memory."""


def nic_memory(settings: dict[str, int]) -> dict[str, int]:
    """Bytes of the NIC's memory by part, for settings as the engine takes them."""
    made = ffi.new("pw_nic_memory *")
    lib.pw_nic_memory_of(ffi.new("pw_settings *", settings), made)
    return {part: int(getattr(made, part)) for part in PARTS}
