/* A sentence for people, put together piece by piece in a buffer of fixed size; what does not fit
 * is cut. */
#ifndef PW_NODE_SENTENCE_H
#define PW_NODE_SENTENCE_H
#include "native/types.h"
#include <stdarg.h>

/* cdef begin */
#define PW_SENTENCE_BYTES 512

typedef struct {
    size_t length;
    char text[PW_SENTENCE_BYTES]; /* ends with 0 */
} pw_sentence;
/* cdef end */

void pw_sentence_clear(pw_sentence *sentence);
/* As printf. */
__attribute__((format(printf, 2, 3))) void pw_sentence_add(pw_sentence *sentence,
                                                           const char *format, ...);
__attribute__((format(printf, 2, 0))) void pw_sentence_add_list(pw_sentence *sentence,
                                                                const char *format,
                                                                va_list arguments);
/* Clears, adds, and returns code: `return pw_sentence_refuse(sentence, PW_ERR_INVALID, ...)`. */
__attribute__((format(printf, 3, 4))) int pw_sentence_refuse(pw_sentence *sentence, int code,
                                                             const char *format, ...);
#endif
