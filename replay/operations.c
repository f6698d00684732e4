#include "replay/operations.h"
#include <stdlib.h>

#define FIRST_BUCKETS 64

void pw_numbers_finish(pw_numbers *numbers)
{
    free(numbers->buckets);
    *numbers = (pw_numbers){NULL};
}

/* Numbers come one after the other, so that their last bits spread them. */
static pw_numbered **bucket_of(const pw_numbers *numbers, uint64_t number)
{
    return &numbers->buckets[number & (numbers->num_buckets - 1)];
}

static void put(pw_numbers *numbers, pw_numbered *operation)
{
    pw_numbered **bucket = bucket_of(numbers, operation->number);
    operation->chain = *bucket;
    *bucket = operation;
}

static int grow(pw_numbers *numbers)
{
    pw_numbers wider = {.num_buckets =
                            numbers->num_buckets ? 2 * numbers->num_buckets : FIRST_BUCKETS,
                        .num_operations = numbers->num_operations};
    wider.buckets = calloc(wider.num_buckets, sizeof *wider.buckets);
    if (!wider.buckets) return PW_ERR_NOMEM;
    for (uint64_t i = 0; i < numbers->num_buckets; i++)
        for (pw_numbered *next, *each = numbers->buckets[i]; each; each = next) {
            next = each->chain;
            put(&wider, each);
        }
    free(numbers->buckets);
    *numbers = wider;
    return PW_OK;
}

int pw_numbers_add(pw_numbers *numbers, pw_numbered *operation, uint64_t number)
{
    if (numbers->num_operations == numbers->num_buckets && grow(numbers) < 0) return PW_ERR_NOMEM;
    operation->number = number;
    put(numbers, operation);
    numbers->num_operations++;
    return PW_OK;
}

pw_numbered *pw_numbers_find(const pw_numbers *numbers, uint64_t number)
{
    if (!numbers->num_buckets) return NULL;
    pw_numbered *each = *bucket_of(numbers, number);
    while (each && each->number != number) each = each->chain;
    return each;
}

void pw_numbers_remove(pw_numbers *numbers, pw_numbered *operation)
{
    pw_numbered **each = bucket_of(numbers, operation->number);
    while (*each != operation) each = &(*each)->chain;
    *each = operation->chain;
    numbers->num_operations--;
}
