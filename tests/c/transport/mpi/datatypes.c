/* Derived types: strides at the sender, at the receiver and at both; packing. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, COLUMNS = 200 };

/* To the partner and from it; the two sides may have other types of the same number of bytes. */
static void exchange(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                     MPI_Datatype in_type)
{
    int partner = check_partner(), got, size_bytes;
    MPI_Status status;
    MPI_Sendrecv(out, out_count, out_type, partner, 60, in, in_count, in_type, partner, 60,
                 MPI_COMM_WORLD, &status);
    MPI_Get_elements(&status, in_type, &got);
    CHECK(got > 0, "a message of a derived type has %d elements", got);
    MPI_Get_count(&status, MPI_BYTE, &got);
    MPI_Type_size(out_type, &size_bytes);
    CHECK_INT(got, size_bytes * out_count, "bytes of a derived type");
}

static int cell(int from, int row, int column) { return from * 1000000 + row * 1000 + column; }

CHECK_PROGRAM(types_matrix)
{
    static int out[ROWS][COLUMNS], in[ROWS][COLUMNS], packed[ROWS * COLUMNS];
    int partner = check_partner(), sizes[] = {ROWS, COLUMNS}, part[] = {ROWS / 2, COLUMNS / 3};
    int starts[] = {10, 20}, num_packed = 0;
    MPI_Datatype column, columns, block;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &columns); /* the next one is to its right */
    MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_C, MPI_INT, &block);
    MPI_Type_commit(&columns);
    MPI_Type_commit(&block);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < COLUMNS; i++) out[row][i] = cell(check_rank, row, i);
    exchange(out, COLUMNS, columns, packed, ROWS * COLUMNS, MPI_INT);
    for (int i = 0; i < COLUMNS; i++)
        for (int row = 0; row < ROWS; row++)
            CHECK_INT(packed[num_packed++], cell(partner, row, i), "transposed at the sender");
    exchange(packed, ROWS * COLUMNS, MPI_INT, in, COLUMNS, columns);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < COLUMNS; i++)
            CHECK_INT(in[row][i], cell(check_rank, row, i), "transposed at the receiver");
    exchange(&out[0][3], 1, columns, &in[0][7], 1, columns);
    for (int row = 0; row < ROWS; row++) {
        CHECK_INT(in[row][7], cell(partner, row, 3), "column");
        CHECK_INT(in[row][8], cell(check_rank, row, 8), "what is beside the column");
    }
    memset(in, 0, sizeof in);
    exchange(out, 1, block, in, 1, block);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < COLUMNS; i++) {
            int is_within = row >= 10 && row < 10 + ROWS / 2 && i >= 20 && i < 20 + COLUMNS / 3;
            CHECK_INT(in[row][i], is_within ? cell(partner, row, i) : 0, "block of a matrix");
        }
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
    MPI_Type_free(&block);
}

typedef struct {
    char letter;
    double value;
    int16_t pair[2];
    char unused[5];
    float end;
} record;

CHECK_PROGRAM(types_struct)
{
    enum { NUM = 5000 };
    record *out = calloc(NUM, sizeof *out), *in = calloc(NUM, sizeof *in);
    int partner = check_partner(), lengths[] = {1, 1, 2, 1}, position = 0, packed_bytes;
    MPI_Aint places[] = {offsetof(record, letter), offsetof(record, value), offsetof(record, pair),
                         offsetof(record, end)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT16_T, MPI_FLOAT}, loose, type;
    MPI_Type_create_struct(4, lengths, places, types, &loose);
    MPI_Type_create_resized(loose, 0, sizeof(record), &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < NUM; i++) {
        out[i] =
            (record){(char)(i % 100), i * 0.5, {(int16_t)i, (int16_t)-i}, "", (float)check_rank};
        memset(in[i].unused, 3, sizeof in[i].unused);
    }
    exchange(out, NUM, type, in, NUM, type);
    for (int i = 0; i < NUM; i++) {
        CHECK_INT(in[i].letter, i % 100, "letter");
        CHECK(in[i].value == i * 0.5, "value %g of record %d", in[i].value, i);
        CHECK_INT(in[i].pair[1], (int16_t)-i, "second of the pair");
        CHECK(in[i].end == (float)partner, "end %g of record %d", in[i].end, i);
        check_bytes(in[i].unused, sizeof in[i].unused, 3, "gap of a record");
    }
    MPI_Pack_size(NUM, type, MPI_COMM_WORLD, &packed_bytes);
    char *packed = malloc((size_t)packed_bytes), *got = malloc((size_t)packed_bytes);
    MPI_Pack(out, NUM, type, packed, packed_bytes, &position, MPI_COMM_WORLD);
    exchange(packed, position, MPI_PACKED, got, packed_bytes, MPI_PACKED);
    memset(in, 0, NUM * sizeof *in);
    position = 0;
    MPI_Unpack(got, packed_bytes, &position, in, NUM, type, MPI_COMM_WORLD);
    for (int i = 0; i < NUM; i++) CHECK(in[i].value == i * 0.5, "unpacked %g", in[i].value);
    free(packed);
    free(got);
    free(out);
    free(in);
    MPI_Type_free(&loose);
    MPI_Type_free(&type);
}

/* Pieces in no order, of many lengths; absolute addresses; negative strides. */
CHECK_PROGRAM(types_indexed)
{
    enum { PIECES = 400, SPACE = 20000 };
    double *out = malloc(SPACE * sizeof *out), *in = malloc(SPACE * sizeof *in);
    int lengths[PIECES], places[PIECES], partner = check_partner();
    MPI_Aint addresses[PIECES];
    MPI_Datatype pieces, absolute, backwards;
    for (int i = 0; i < PIECES; i++) {
        lengths[i] = i % 7;
        places[i] = i * 37 % PIECES * 50;
        MPI_Get_address(&in[places[i]], &addresses[i]);
    }
    for (int i = 0; i < SPACE; i++) out[i] = check_rank * 100000 + i, in[i] = -1;
    MPI_Type_indexed(PIECES, lengths, places, MPI_DOUBLE, &pieces);
    MPI_Type_create_hindexed(PIECES, lengths, addresses, MPI_DOUBLE, &absolute);
    MPI_Type_create_hvector(1000, 1, -16, MPI_DOUBLE, &backwards);
    MPI_Type_commit(&pieces);
    MPI_Type_commit(&absolute);
    MPI_Type_commit(&backwards);
    exchange(out, 1, pieces, MPI_BOTTOM, 1, absolute);
    for (int i = 0; i < PIECES; i++)
        for (int j = 0; j < 50; j++)
            CHECK(in[places[i] + j] == (j < lengths[i] ? partner * 100000 + places[i] + j : -1),
                  "element %d of piece %d is %g", j, i, in[places[i] + j]);
    exchange(out + 2000, 1, backwards, in, 1000, MPI_DOUBLE);
    for (int i = 0; i < 1000; i++)
        CHECK(in[i] == partner * 100000 + 2000 - 2 * i, "element %d backwards is %g", i, in[i]);
    MPI_Type_free(&pieces);
    MPI_Type_free(&absolute);
    MPI_Type_free(&backwards);
    free(out);
    free(in);
}

/* Strided in a reduction and in a broadcast. */
CHECK_PROGRAM(types_collective)
{
    static int matrix[ROWS][COLUMNS], out[ROWS];
    MPI_Datatype column;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int row = 0; row < ROWS; row++) matrix[row][5] = check_rank == 0 ? row + 1 : -1;
    MPI_Bcast(&matrix[0][5], 1, column, 0, MPI_COMM_WORLD);
    for (int row = 0; row < ROWS; row++) CHECK_INT(matrix[row][5], row + 1, "column of Bcast");
    for (int row = 0; row < ROWS; row++) out[row] = check_rank * 1000 + row;
    int *all = malloc((size_t)check_size * ROWS * COLUMNS * sizeof *all);
    MPI_Gather(out, ROWS, MPI_INT, all, 1, column, 0, MPI_COMM_WORLD);
    MPI_Aint extent, low;
    MPI_Type_get_extent(column, &low, &extent);
    for (int from = 0; from < check_size && check_rank == 0; from++)
        for (int row = 0; row < ROWS; row++)
            CHECK_INT(all[from * (int)(extent / (MPI_Aint)sizeof(int)) + row * COLUMNS],
                      from * 1000 + row, "column of Gather");
    free(all);
    MPI_Type_free(&column);
}
