/* What the process manager gave this process, its rank above all, for code that runs before MPI
 * does. Plain C without dependencies: starter, marks and provider are programs and libraries apart.
 */
#ifndef PW_MARKS_RANK_H
#define PW_MARKS_RANK_H
#include <stdbool.h>
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

/* Whether MPI_Comm_spawn made it: then its rank is among those that it was spawned with. */
static inline bool pagewire_is_spawned(void)
{
    const char *by_pmi = getenv("PMI_SPAWNED"), *namespace = getenv("PMIX_NAMESPACE");
    if (by_pmi && strcmp(by_pmi, "0") != 0) return true;
    const char *job = namespace ? strrchr(namespace, '@') : NULL; /* PRRTE numbers them from 1 */
    return job && strcmp(job, "@1") != 0;
}

#endif
