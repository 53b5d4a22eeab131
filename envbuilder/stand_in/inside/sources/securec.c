// The bounded functions of libc_sec that the libraries of torch_npu and triton-ascend call.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERANGE_AND_RESET = 162 };

int memcpy_s(void *to, size_t most, const void *from, size_t size) {
    if (size > most) return ERANGE_AND_RESET;
    memcpy(to, from, size);
    return 0;
}

int memset_s(void *memory, size_t most, int value, size_t size) {
    if (size > most) return ERANGE_AND_RESET;
    memset(memory, value, size);
    return 0;
}

int strcpy_s(char *to, size_t most, const char *from) { return memcpy_s(to, most, from, strlen(from) + 1); }

int vsnprintf_s(char *to, size_t most, size_t count, const char *format, va_list arguments) {
    int length = vsnprintf(to, most, format, arguments);
    return length < 0 || (size_t)length >= most ? -1 : length;
}

int snprintf_s(char *to, size_t most, size_t count, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf_s(to, most, count, format, arguments);
    va_end(arguments);
    return length;
}
