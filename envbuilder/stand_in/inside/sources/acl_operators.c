// The ACL runtime: there are no operators, but their descriptions are real, so that a missing one fails with an exception.
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct description {
    int type, format, dimensions;
    int64_t size[16];
    const void *constant;
};

struct buffer {
    void *data;
    size_t size;
};

aclError aclSetCompileopt(int option, const char *value) { return ACL_SUCCESS; }
size_t aclGetCompileoptSize(int option) { return 16; }

aclError aclGetCompileopt(int option, char *value, size_t size) {
    snprintf(value, size, "disable");
    return ACL_SUCCESS;
}

aclError aclmdlInitDump(void) { return ACL_SUCCESS; }
aclError aclmdlSetDump(const char *path) { return ACL_SUCCESS; }
aclError aclmdlFinalizeDump(void) { return ACL_SUCCESS; }

void *aclCreateTensorDesc(int type, int dimensions, const int64_t *size, int format) {
    struct description *made = calloc(1, sizeof *made);
    made->type = type, made->format = format, made->dimensions = dimensions;
    for (int i = 0; i < dimensions && i < 16; i++) made->size[i] = size[i];
    return made;
}

void aclDestroyTensorDesc(const void *description) { free((void *)description); }
int aclGetTensorDescType(const struct description *description) { return description->type; }
int aclGetTensorDescFormat(const struct description *description) { return description->format; }
size_t aclGetTensorDescNumDims(const struct description *description) { return description->dimensions; }

aclError aclGetTensorDescDimV2(const struct description *description, size_t dimension, int64_t *size) {
    *size = description->size[dimension];
    return ACL_SUCCESS;
}

void aclSetTensorDescName(void *description, const char *name) {}
aclError aclSetTensorFormat(void *description, int format) { return ACL_SUCCESS; }
aclError aclSetTensorShape(void *description, int dimensions, const int64_t *size) { return ACL_SUCCESS; }
aclError aclSetTensorPlaceMent(void *description, int place) { return ACL_SUCCESS; }

aclError aclSetTensorConst(struct description *description, void *data, size_t size) {
    description->constant = data;
    return ACL_SUCCESS;
}

void *aclCreateDataBuffer(void *data, size_t size) {
    struct buffer *made = calloc(1, sizeof *made);
    made->data = data, made->size = size;
    return made;
}

aclError aclDestroyDataBuffer(const void *buffer) {
    free((void *)buffer);
    return ACL_SUCCESS;
}

void *aclopCreateAttr(void) { return calloc(1, 16); }
void aclopDestroyAttr(const void *attributes) { free((void *)attributes); }

// torch_npu's process group calls two operators past torch's dispatcher, to pad what it gathers: these are computed

static size_t bytes_of(int type) {
    // in the order of aclDataType; 0 for types without a fixed size
    static const unsigned char bytes[] = {4, 2, 1, 4, 1, 0, 2, 2, 4, 8, 8, 8, 1, 0, 0, 0, 8, 16, [27] = 2};
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

static void fill(void *to, size_t size, const void *value, size_t width) {
    for (size_t at = 0; at + width <= size; at += width) memcpy((char *)to + at, value, width);
}

// pads the end of the last dimension with a value
static int pad(const struct description *from, const void *source, const struct description *to, void *target,
               const void *value, size_t width) {
    int last = from->dimensions - 1;
    if (last < 0 || from->dimensions != to->dimensions) return 0;
    size_t rows = 1, short_row = from->size[last] * width, long_row = to->size[last] * width;
    for (int i = 0; i < last; i++) {
        if (from->size[i] != to->size[i]) return 0;
        rows *= from->size[i];
    }
    fill(target, rows * long_row, value, width);
    for (size_t row = 0; row < rows; row++)
        memcpy((char *)target + row * long_row, (const char *)source + row * short_row, short_row);
    return 1;
}

aclError aclopCompileAndExecute(const char *operator, int inputs, struct description *const input[],
                                struct buffer *const input_data[], int outputs, struct description *const output[],
                                struct buffer *const output_data[], const void *attributes, int engine, int flag,
                                const char *path, void *stream) {
    if (inputs > 1 && outputs == 1 && input[inputs - 1]->type == output[0]->type) {
        size_t width = bytes_of(output[0]->type);
        const void *value = input[inputs - 1]->constant ? input[inputs - 1]->constant : input_data[inputs - 1]->data;
        if (width && value && inputs == 2 && !strcmp(operator, "Fill")) {
            fill(output_data[0]->data, output_data[0]->size, value, width);
            return ACL_SUCCESS;
        }
        if (width && value && inputs == 3 && !strcmp(operator, "PadV3") &&
            pad(input[0], input_data[0]->data, output[0], output_data[0]->data, value, width))
            return ACL_SUCCESS;
    }
    char name[256];
    snprintf(name, sizeof name, "aclopCompileAndExecute(%s)", operator);
    return stand_in_missing(name);
}
