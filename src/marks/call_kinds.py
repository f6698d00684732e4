"""What each MPI function does to the CPU that calls it: the kinds of transport/marks/marks.h.

The rule is the facade's: what communicates, or may wait for another process or for a disk, is
marked; what only looks at or changes this process's own objects (Comm_rank, Type_commit, Pack,
Reduce_local, Wtime) is `local`, has no wrapper and costs nothing but the CPU time it takes, as the
program's own functions do. A function that is in no list has no kind: reading the headers fails,
so that what a new MPI version brings is looked at by a person.
"""

import re

KINDS = ("local", "posts", "waits", "tests")

_COLLECTIVE = (
    r"All(gather|reduce|toall)[vw]?|Barrier|Bcast|Gatherv?|Scatterv?|Reduce(_scatter(_block)?)?"
    r"|Scan|Exscan|Neighbor_all(gather|toall)[vw]?"
)
_POINT_TO_POINT = r"Send|[SR]send|Recv|Mrecv|Sendrecv(_replace)?|Probe|Mprobe"

_RULES = {
    "waits": (
        r"Init(_thread)?|Finalize|Session_(init|finalize)",
        _POINT_TO_POINT,
        r"Wait(all|any|some)?",
        rf"({_COLLECTIVE})(_init)?",  # a persistent one's making may wait (MPI 4.1, 6.13)
        r"(Buffer|Comm|Session)_detach(_buffer)?|Buffer_flush|(Comm|Session)_flush_buffer",
        r"Comm_(create(_group|_from_group)?|dup(_with_info)?|split(_type)?|free|set_info)",
        r"Comm_(accept|connect|disconnect|join|spawn(_multiple)?)|(Open|Close)_port",
        r"(Publish|Unpublish|Lookup)_name",
        r"Intercomm_(create(_from_groups)?|merge)",
        r"Cart_(create|sub|map)|Graph_(create|map)|Dist_graph_create(_adjacent)?",
        r"Win_(allocate(_shared)?|create(_dynamic)?|free|set_info)",
        r"Win_(fence|start|complete|wait|(un)?lock(_all)?|flush(_local)?(_all)?)",
        r"File_(open|close|delete|sync|preallocate|get_size|get_position_shared|seek_shared)",
        r"File_set_(atomicity|info|size|view)",
        r"File_(read|write)(_at|_all|_at_all|_shared|_ordered)?",
        r"File_(read|write)_(all|at_all|ordered)_(begin|end)",
        r"MPIX_Comm_(agree|shrink)|MPIX_Stream_(send|recv|comm_create(_multiplex)?)",
        r"MPIX_Threadcomm_(init|start|finish|free)",
    ),
    "tests": (
        r"Test(all|any|some)?|Iprobe|Improbe|Parrived|Win_test",
        r"Request_get_status(_all|_any|_some)?",
        r"MPIX_Request_is_complete|MPIX_Stream_progress",
    ),
    "posts": (
        r"Abort|Cancel|Request_free|Start(all)?|Pready(_list|_range)?",
        r"Bsend|I[bsr]?send|Irecv|Imrecv|Isendrecv(_replace)?",
        r"Send_init|[BRS]send_init|Recv_init|Psend_init|Precv_init",
        rf"I({_COLLECTIVE.lower()})",
        r"Comm_idup(_with_info)?|Buffer_iflush|(Comm|Session)_iflush_buffer",
        r"R(put|get|accumulate|get_accumulate)|Put|Get(_accumulate)?|Accumulate",
        r"Compare_and_swap|Fetch_and_op",
        r"Win_(attach|detach|post|sync)",
        r"File_i(read|write)(_at|_all|_at_all|_shared)?",
        r"MPIX_(Send|Recv|Isend|Irecv|Wait|Waitall|Allreduce)_enqueue",
        r"MPIX_Stream_i(send|recv)|MPIX_Comm_(iagree|revoke)",
    ),
    "local": (
        r"T_\w+|Abi_\w+|Pcontrol|Wtime|Wtick",
        r"\w+_(c2f|f2c|c2f08|f082c|f2f08|f082f|toint|fromint)",
        r"[A-Z0-9_]+_FN|DUP_FN",
        r"(Type|Info|Group|Status|Op|Errhandler|Keyval|Attr)_\w+",
        r"Add_error_\w+|Remove_error_\w+|Error_(class|string)|\w+_call_errhandler",
        r"(Comm|Win|File|Session)_(create|get|set)_errhandler(_function)?",
        r"(Comm|Win)_(create_keyval|free_keyval|delete_attr|get_attr|set_attr)",
        r"(Comm|Win)_(get_info|get_name|set_name)|Session_(get_info|set_info)",
        r"Comm_(compare|get_parent|group|rank|remote_group|remote_size|size|test_inter)",
        r"Session_(get_nth_pset|get_num_psets|get_pset_info)",
        r"Cart_(coords|get|rank|shift)|Cartdim_get|Dims_create|Topo_test|Graphdims_get",
        r"(Graph|Dist_graph)_(get|neighbors|neighbors_count)",
        r"(Buffer_attach|(Comm|Session)_attach_buffer|Alloc_mem|Free_mem)",
        r"Address|Aint_(add|diff)|Get_(address|count|elements(_x)?|hw_resource_info)",
        r"Get_(library_version|processor_name|version)|Query_thread",
        r"Initialized|Finalized|Is_thread_main|Test_cancelled",
        r"Pack(_external)?(_size)?|Unpack(_external)?|Reduce_local|Register_datarep",
        r"Grequest_(start|complete)|Win_(get_group|shared_query)",
        r"File_get_(amode|atomicity|byte_offset|group|info|position|type_extent|view)|File_seek",
        r"Handler_function|MPIX_(Async|Grequest|GPU_query|Info|Op|Query|Type)_\w+",
        r"MPIX_Comm_(ack_failed|failure_ack|failure_get_acked|get_failed|is_revoked)",
        r"MPIX_(Comm|Win|File|Session)_create_errhandler_x|MPIX_Comm_(get_stream|test_threadcomm)",
        r"MPIX_(Start|Stop)_progress_thread|MPIX_Stream_(create|free)",
    ),
}

_PATTERNS = {kind: re.compile("|".join(f"(?:{each})" for each in _RULES[kind])) for kind in _RULES}


def call_name(function: str) -> str:
    """What a report calls it: without MPI_, and a large-count variant like the one without."""
    return function.removeprefix("MPI_").removesuffix("_c")


def kind_of(function: str) -> str:
    """One of KINDS; a function that no rule or more than one knows is a ValueError."""
    name = call_name(function)
    found = [kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(name)]
    if len(found) != 1:
        raise ValueError(
            f"{function} is of {len(found)} kinds ({', '.join(found) or 'none'}), not of one; "
            "say in src/marks/call_kinds.py whether it is " + ", ".join(KINDS)
        )
    return found[0]
