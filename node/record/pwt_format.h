/* The recorded trace of a program (.pwt): what each rank did, never what one strategy made of it.
 * docs/trace-format.md tells it in words, with a reader in Python. Little endian.
 *
 * A file is a pw_pwt_file_header, then chunks, then, unless the run was killed, an index chunk
 * and a pw_pwt_file_footer. A chunk is a pw_pwt_chunk_header and stored_bytes. The chunks of one
 * rank and kind hold one stream: their raw bytes, one after the other by `sequence`; no record is
 * cut in two. What a rank writes itself is such a file too, of one rank and not compressed.
 *
 * Records: an opcode of one byte, then its fields, each an unsigned LEB128 number; fields marked
 * +- are zigzag (0, -1, 1, -2 ...). Times are ns. Operations are numbered from 0 on in the order
 * in which a rank's SEND, RECEIVE, FOUND, TAKE, PART, PUT, GET and ATOMIC stand; DONE and the like
 * name one by how many operations stand between: 0 is the latest. */
#ifndef PW_NODE_RECORD_PWT_FORMAT_H
#define PW_NODE_RECORD_PWT_FORMAT_H
#include "native/types.h"

/* cdef begin */
#define PW_PWT_VERSION 1
#define PW_PWT_ALL_RANKS UINT32_MAX
#define PW_PWT_CHUNK_BYTES 65536 /* raw, at most, where a rank writes itself */

/* Kinds of chunks. */
#define PW_PWT_META 1 /* JSON, UTF-8, of all ranks: program, settings, platform, versions */
#define PW_PWT_OPS 2  /* records, below */
#define PW_PWT_MATCHES                                                                            \
    3                  /* of each RECEIVE from any source, in their order: peer + 1 and source of \
                            the message that it took; 0 and 0: it took none */
#define PW_PWT_TIMES 4 /* of each LEAVE and the END: +- the virtual clock, less the one before */
#define PW_PWT_REGIONS                                                                          \
    5                  /* region, base address; as the run had them: equal runs may differ here \
                        */
#define PW_PWT_INDEX 6 /* pw_pwt_index_row, of all ranks */
#define PW_PWT_TURNS                                                                               \
    7 /* numbers: when this host let the node work, on which its times depend where flows contend. \
       * Of each turn: records of OPS since the one before, PW_TURN_BURST + node for each burst    \
       * that was taken, and how it ended */
#define PW_TURN_COMPUTES \
    0 /* the NI went on to the CPU's clock; it follows, as it was before the bursts were taken */
#define PW_TURN_WAITS 1 /* and as far as it could */
#define PW_TURN_BURST 2
#define PW_PWT_KEYS                                                                            \
    8 /* key of each REGISTER, and of each PUT and GET whose key is new: as the run had them;  \
       * equal runs may differ here, too. Without one: that of the memory registered last that \
       * holds what is wanted */
#define PW_PWT_ROOMS                                                                              \
    9 /* of each UNSIZED RECEIVE and TAKE, in their order, its memory when the message came:      \
       * number of runs of pages, region, +-offset, then count and state of each run. 0, 0, 0: no \
       * message came. No runs: it rode in its envelope. Without it: at offset 0 of region 0 */
#define PW_ROOM_RUNS_MAX 16 /* the last one is for the rest */
#define PW_KEY_NONE 0
#define PW_KEY_NEW 1
#define PW_KEY_KNOWN 2   /* plus how many keys were new since this one */
#define PW_KEYS_KNOWN 64 /* so many are remembered; an older one is new again */

#define PW_PWT_CODEC_NONE 0
#define PW_PWT_CODEC_ZSTD 1

/* Opcodes, and their fields. */
#define PW_OP_END 0     /* the program has ended; the last record */
#define PW_OP_COMPUTE 1 /* ns: the program computed */
#define PW_OP_NAME 2    /* idx, from 0 on, number of bytes, and these: a name for CALL, in UTF-8 */
#define PW_OP_CALL 3    /* idx of its name: an MPI call begins, which costs the library's entry */
#define PW_OP_ENTER 4   /* a call begins that costs none */
#define PW_OP_LEAVE 5   /* it ends */
#define PW_OP_SEND \
    6 /* peer, context, tag, source, bytes, region, +-offset, flags, data if in flags */
#define PW_OP_RECEIVE                                                                             \
    7                /* peer + 1 or 0 for any, context, tag, source, bytes of the buffer, region, \
                        +-offset, flags, ignored bits of the tag if in flags */
#define PW_OP_DONE 8 /* operation: the CPU waits until it is over, and learns of it by a look */
#define PW_OP_TOLD 9 /* operation: it was over at the last look, too */
#define PW_OP_LOOKS 10 /* count, ns: so many calls that found nothing took so long */
#define PW_OP_READ 11  /* a reading of the clock */
#define PW_OP_SLEEP 12 /* ns */
#define PW_OP_PASS 13  /* +-ns: the CPU works within a call; or what a test in vain took back */
#define PW_OP_MEET                                                                                \
    14                 /* group, members: clocks of the group's ranks go on to the latest of them \
                        */
#define PW_OP_FOUND 15 /* peer, context, tag, source, flags: a probe tells of a message */
#define PW_OP_TAKE                                                                  \
    16 /* operation of a FOUND, then bytes, region, +-offset, flags: received, into \
          an operation of its own */
#define PW_OP_CANCEL 17 /* operation: a receive is taken back */
#define PW_OP_PAGES \
    18 /* region, +-page, count, state (PW_PAGE_*): how the program has left pages */
#define PW_OP_UNMAP 19  /* region, +-page, count: the program gave them back */
#define PW_OP_FORK 20   /* the process was forked */
#define PW_OP_REGION 21 /* number of bytes, and these: a phase of the program begins */
#define PW_OP_LEFT 22   /* the innermost phase ends */
#define PW_OP_LOST 23   /* number of bytes, and these: what cannot be recorded was done here */
#define PW_OP_PART                                                                     \
    24 /* operation of a RECEIVE that takes several, peer, source: the next message of \
          these that it took; an operation itself */
#define PW_OP_REGISTER                                                              \
    25 /* bytes, region, +-offset, rights: peers may use this memory; registrations \
          are numbered from 0 on */
#define PW_OP_DEREGISTER 26 /* number of a registration: no more */
#define PW_OP_PUT                                                                                \
    27 /* peer, bytes, region, +-offset, remote region, +-remote offset, key (PW_KEY_*): written \
          to the peer's memory. A remote region is numbered as this rank's own are, with a base  \
          too */
#define PW_OP_GET 28 /* the same: read from the peer's memory */
#define PW_OP_ATOMIC                                                                              \
    29 /* peer, bytes, remote region, +-remote offset, bytes of the request, bytes of the answer: \
          the peer's NI does it with its memory */
#define PW_OPS 30

/* Flags of SEND. */
#define PW_SEND_SYNCHRONOUS 1 /* is over when it is received, however short */
#define PW_SEND_HAS_DATA 2
#define PW_SEND_WAS_EAGER 4 /* rode in its envelope: no DONE follows */
/* Flags of RECEIVE and TAKE. */
#define PW_RECEIVE_UNSIZED 1 /* into memory of its own, of the message's length */
#define PW_RECEIVE_IGNORES 2 /* bits of the tag; else none */
#define PW_RECEIVE_MULTI 4   /* takes several messages */
#define PW_RECEIVE_IN_ORDER                                                  \
    8 /* such messages of one source end in the order of sending, at the end \
         of the one before at the earliest */
/* Rights of REGISTER. */
#define PW_REGISTER_READ 1
#define PW_REGISTER_WRITE 2
#define PW_REGISTER_ALL 4 /* all memory, wherever it is */
/* Flags of FOUND. */
#define PW_FOUND_WAITED 1 /* the CPU waited for it */
#define PW_FOUND_TAKEN 2  /* nobody else gets it: a TAKE may follow */

typedef struct {
    char magic[8]; /* PW_PWT_MAGIC */
    uint32_t version, num_ranks;
    uint64_t reserved[2];
} pw_pwt_file_header;

typedef struct {
    uint32_t magic; /* PW_PWT_CHUNK_MAGIC */
    uint16_t kind, codec;
    uint32_t rank; /* PW_PWT_ALL_RANKS: the file's */
    uint32_t sequence;
    uint32_t stored_bytes, raw_bytes;
    uint32_t num_records;
    uint32_t crc; /* CRC-32C of the header, this field 0, and of what is stored */
} pw_pwt_chunk_header;

typedef struct {
    uint64_t offset; /* of the chunk's header in the file */
    uint32_t rank, sequence;
    uint32_t raw_bytes, num_records;
    uint16_t kind, codec;
    uint32_t stored_bytes;
} pw_pwt_index_row;

typedef struct {
    uint64_t index_offset; /* 0: none; a rank's own file, which is whole */
    char magic[8];         /* PW_PWT_END_MAGIC */
} pw_pwt_file_footer;

/* What a rank has not written yet stands in FILE.RANK.tail, which it maps, so that a kill loses
 * nothing: an open chunk for each stream. The file goes when the rank ends well. */
#define PW_PWT_OPEN_CHUNKS 7
typedef struct {
    uint16_t kind, reserved;
    uint32_t rank, sequence;
    uint32_t whole_bytes, whole_records; /* of the records that are whole */
    uint32_t num_bytes, num_records;
    uint8_t bytes[PW_PWT_CHUNK_BYTES];
} pw_pwt_open_chunk;
/* cdef end */

#define PW_PWT_MAGIC "PWTRACE\n"
#define PW_PWT_END_MAGIC "PWTEND.\n"
#define PW_PWT_CHUNK_MAGIC UINT32_C(0x4b4e4843) /* "CHNK" */

_Static_assert(sizeof(pw_pwt_file_header) == 32, "header of a trace");
_Static_assert(sizeof(pw_pwt_chunk_header) == 32, "header of a chunk");
_Static_assert(sizeof(pw_pwt_index_row) == 32, "row of the index");
_Static_assert(sizeof(pw_pwt_file_footer) == 16, "end of a trace");
#endif
