/* The rank that the process manager gave this process, for code that runs before MPI does. Plain C
 * without dependencies: starter, marks and provider are programs and libraries apart. */
#ifndef PW_MARKS_RANK_H
#define PW_MARKS_RANK_H
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Decimal digits; "0" without a process manager. */
static inline const char *pagewire_rank_text(void)
{
    const char *const variables[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        if (text && *text && !text[strspn(text, "0123456789")]) return text;
    }
    return "0";
}

#endif
