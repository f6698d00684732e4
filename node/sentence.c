#include "node/sentence.h"
#include <stdio.h>

void pw_sentence_clear(pw_sentence *sentence)
{
    sentence->length = 0;
    sentence->text[0] = 0;
}

void pw_sentence_add_list(pw_sentence *sentence, const char *format, va_list arguments)
{
    size_t room = sizeof sentence->text - sentence->length;
    int wanted = vsnprintf(sentence->text + sentence->length, room, format, arguments);
    if (wanted > 0) sentence->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

void pw_sentence_add(pw_sentence *sentence, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pw_sentence_add_list(sentence, format, arguments);
    va_end(arguments);
}

int pw_sentence_refuse(pw_sentence *sentence, int code, const char *format, ...)
{
    va_list arguments;
    pw_sentence_clear(sentence);
    va_start(arguments, format);
    pw_sentence_add_list(sentence, format, arguments);
    va_end(arguments);
    return code;
}
