// A stand-in of the ACL runtime. The memory of a device is memory of this host, and every call has done its work when it
// returns, so that streams and events have nothing to wait for.
#define _GNU_SOURCE
#include "stand_in.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DEVICES = 64, PAGE = 4096, GRANULARITY = 2 << 20 };

static __thread char message[512];

const char *stand_in_setting(const char *variable, const char *otherwise) {
    const char *value = getenv(variable);
    return value && *value ? value : otherwise;
}

long stand_in_missing(const char *function) {
    snprintf(message, sizeof message, "stand-in of CANN: %s needs an NPU, and none is here", function);
    if (*stand_in_setting("STAND_IN_TRACE", "")) fprintf(stderr, "[stand-in] missing: %s\n", function);
    return ACL_ERROR_API_NOT_SUPPORT;
}

// --- the process and the versions ------------------------------------------------------------------------------------

aclError aclInit(const char *config) { return ACL_SUCCESS; }
aclError aclFinalize(void) { return ACL_SUCCESS; }
void aclAppLog(int level, const char *function, const char *file, uint32_t line, const char *format, ...) {}

const char *aclGetRecentErrMsg(void) {
    static __thread char last[sizeof message];
    strcpy(last, message);
    message[0] = 0;
    return last[0] ? last : NULL;
}

const char *aclrtGetSocName(void) { return stand_in_setting("STAND_IN_SOC", STAND_IN_SOC); }

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch) {
    *major = 1, *minor = 14, *patch = 0;
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(const char *package, char *text) {
    strcpy(text, STAND_IN_CANN);
    return ACL_SUCCESS;
}

struct version {
    char version[128], major[64], minor[64], release[64], patch[64], reserved[128];
};

aclError aclsysGetCANNVersion(int package, struct version *found) {
    memset(found, 0, sizeof *found);
    strcpy(found->version, STAND_IN_CANN);
    sscanf(found->version, "%63[^.].%63[^.].%63s", found->major, found->minor, found->release);
    return ACL_SUCCESS;
}

// on the host, not on the device
aclError aclrtGetRunMode(int *mode) {
    *mode = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetLastError(int level) { return ACL_SUCCESS; }
aclError aclrtPeekAtLastError(int level) { return ACL_SUCCESS; }

// --- devices and contexts --------------------------------------------------------------------------------------------

static __thread int32_t current = -1;
static char contexts[MOST_DEVICES];

// as the vendor's: the visible devices up to the first that does not exist
static int visible_of(int all) {
    const char *visible = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (!visible) return all;
    char *copy = strdup(visible), *rest = NULL;
    int count = 0;
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest), count++) {
        int number = atoi(part);
        if (number < 0 || number >= all) break;
    }
    free(copy);
    return count;
}

static int device_count(void) {
    static int count = -1;
    if (count < 0) {
        int all = atoi(stand_in_setting("STAND_IN_DEVICES", STAND_IN_DEVICES));
        count = visible_of(all < MOST_DEVICES ? all : MOST_DEVICES);
    }
    return count;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    *count = device_count();
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device) {
    if (device < 0 || device >= device_count()) return ACL_ERROR_RT_INVALID_DEVICEID;
    current = device;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device) {
    if (current < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    *device = current;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(void **context) {
    if (current < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    *context = contexts + current;
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(void *context) {
    current = (char *)context - contexts;
    return ACL_SUCCESS;
}

aclError aclrtCreateContext(void **context, int32_t device) {
    aclError error = aclrtSetDevice(device);
    return error ? error : aclrtGetCurrentContext(context);
}

aclError aclrtDestroyContext(void *context) { return ACL_SUCCESS; }
aclError aclrtResetDevice(int32_t device) { return ACL_SUCCESS; }
aclError aclrtResetDeviceForce(int32_t device) { return ACL_SUCCESS; }

aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
    *can = 1;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) { return ACL_SUCCESS; }

aclError aclrtDeviceGetBareTgid(int32_t *process) {
    *process = getpid();
    return ACL_SUCCESS;
}

// the number of cores, whichever kind of core is asked for
aclError aclGetDeviceCapability(uint32_t device, int kind, int64_t *value) {
    *value = 24;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t device, int kind, int64_t *value) {
    *value = 24;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceUtilizationRate(int32_t device, int32_t *rates) {
    memset(rates, 0, 4 * sizeof *rates);
    return ACL_SUCCESS;
}

// settings without an effect on memory or results
aclError aclrtSetDeviceSatMode(int mode) { return ACL_SUCCESS; }
aclError aclrtSetSysParamOpt(int option, int64_t value) { return ACL_SUCCESS; }
aclError aclrtCtxSetSysParamOpt(int option, int64_t value) { return ACL_SUCCESS; }
aclError aclrtSetTsDevice(int device) { return ACL_SUCCESS; }
aclError aclrtSetExceptionInfoCallback(void *callback) { return ACL_SUCCESS; }
aclError aclrtSetOpWaitTimeout(uint32_t seconds) { return ACL_SUCCESS; }
aclError aclrtSetOpExecuteTimeOut(uint32_t seconds) { return ACL_SUCCESS; }

aclError aclrtSetOpExecuteTimeOutV2(uint64_t wanted, uint64_t *actual) {
    *actual = wanted;
    return ACL_SUCCESS;
}

aclError aclrtGetOpTimeOutInterval(uint64_t *interval) {
    *interval = 1;
    return ACL_SUCCESS;
}

// --- memory: its amount is counted, so that "out of memory" and the free memory are as on a device ---------------------

struct block {
    size_t size;
    int32_t device;
    int file;
};

static size_t used[MOST_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t capacity(void) { return strtoull(stand_in_setting("STAND_IN_MEMORY_GIB", STAND_IN_MEMORY_GIB), NULL, 10) << 30; }

// takes the amount from what the current device has, or gives an error
static aclError take(size_t size) {
    if (current < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&lock);
    int fits = used[current] + size <= capacity();
    if (fits) used[current] += size;
    pthread_mutex_unlock(&lock);
    return fits ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

static void give_back(int32_t device, size_t size) {
    pthread_mutex_lock(&lock);
    used[device] -= size;
    pthread_mutex_unlock(&lock);
}

// A file in memory, so that other processes can map it. A page in front of the memory remembers its size, a page behind it
// absorbs reads of whole vectors.
aclError aclrtMalloc(void **memory, size_t size, int policy) {
    aclError error = take(size);
    if (error) return error;
    int file = memfd_create("stand-in", MFD_CLOEXEC);
    size_t whole = size + 2 * PAGE;
    char *raw = file < 0 || ftruncate(file, whole) ? MAP_FAILED : mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (raw == MAP_FAILED) {
        if (file >= 0) close(file);
        give_back(current, size);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *(struct block *)raw = (struct block){size, current, file};
    *memory = raw + PAGE;
    return ACL_SUCCESS;
}

aclError aclrtMallocAlign32(void **memory, size_t size, int policy) { return aclrtMalloc(memory, size, policy); }
aclError aclrtMallocCached(void **memory, size_t size, int policy) { return aclrtMalloc(memory, size, policy); }
aclError aclrtMallocWithCfg(void **memory, size_t size, int policy, void *config) { return aclrtMalloc(memory, size, policy); }

aclError aclrtFree(void *memory) {
    if (!memory) return ACL_SUCCESS;
    struct block *block = (void *)((char *)memory - PAGE);
    give_back(block->device, block->size);
    close(block->file);
    munmap(block, block->size + 2 * PAGE);
    return ACL_SUCCESS;
}

// --- memory of another process: the key names the file of a block ----------------------------------------------------

enum { KEY_LENGTH = 65 };

struct import {
    char key[KEY_LENGTH];
    void *at;
    size_t size;
    struct import *next;
};

static struct import *imports;

aclError aclrtIpcMemGetExportKey(void *memory, size_t size, char *key, size_t length, uint64_t flags) {
    struct block *block = (void *)((char *)memory - PAGE);
    if (length < KEY_LENGTH || size > block->size) return ACL_ERROR_RT_PARAM_INVALID;
    snprintf(key, length, "%d/%d/%zu", getpid(), block->file, block->size + 2 * PAGE);
    return ACL_SUCCESS;
}

aclError aclrtIpcMemSetImportPid(const char *key, int32_t *processes, size_t count) { return ACL_SUCCESS; }

aclError aclrtIpcMemImportByKey(void **memory, const char *key, uint64_t flags) {
    int process, number;
    size_t size;
    char path[64];
    if (sscanf(key, "%d/%d/%zu", &process, &number, &size) != 3) return ACL_ERROR_RT_PARAM_INVALID;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, number);
    int file = open(path, O_RDWR | O_CLOEXEC);
    char *raw = file < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    struct import *import = raw == MAP_FAILED ? NULL : malloc(sizeof *import);
    if (!import) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    snprintf(import->key, sizeof import->key, "%s", key);
    import->at = raw, import->size = size;
    pthread_mutex_lock(&lock);
    import->next = imports;
    imports = import;
    pthread_mutex_unlock(&lock);
    *memory = raw + PAGE;
    return ACL_SUCCESS;
}

// the process that exported the memory closes the key as well, and has nothing to unmap
aclError aclrtIpcMemClose(const char *key) {
    pthread_mutex_lock(&lock);
    for (struct import **link = &imports; *link; link = &(*link)->next) {
        struct import *import = *link;
        if (strcmp(import->key, key)) continue;
        *link = import->next;
        munmap(import->at, import->size);
        free(import);
        break;
    }
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **memory, size_t size) {
    return posix_memalign(memory, PAGE, size ? size : 1) ? ACL_ERROR_RT_MEMORY_ALLOCATION : ACL_SUCCESS;
}

aclError aclrtFreeHost(void *memory) {
    free(memory);
    return ACL_SUCCESS;
}

aclError aclrtHostRegister(void *memory, uint64_t size, int kind, void **device) {
    *device = memory;
    return ACL_SUCCESS;
}

aclError aclrtHostUnregister(void *memory) { return ACL_SUCCESS; }

aclError aclrtGetMemInfo(int kind, size_t *available, size_t *total) {
    *total = capacity();
    *available = *total - used[current < 0 ? 0 : current];
    return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void *memory, uint32_t *attributes) {
    enum { DEVICE_0 = 0, ON_DEVICE = 2 };
    attributes[0] = DEVICE_0, attributes[1] = ON_DEVICE;
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void *to, size_t most, const void *from, size_t size, int kind) {
    if (size > most) return ACL_ERROR_RT_PARAM_INVALID;
    memmove(to, from, size);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void *to, size_t most, const void *from, size_t size, int kind, void *stream) {
    return aclrtMemcpy(to, most, from, size, kind);
}

aclError aclrtMemcpyAsyncWithCondition(void *to, size_t most, const void *from, size_t size, int kind, void *stream) {
    return aclrtMemcpy(to, most, from, size, kind);
}

aclError aclrtMemcpy2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind) {
    for (size_t row = 0; row < rows; row++) memmove((char *)to + row * to_pitch, (char *)from + row * from_pitch, width);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy2dAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind,
                            void *stream) {
    return aclrtMemcpy2d(to, to_pitch, from, from_pitch, width, rows, kind);
}

aclError aclrtMemset(void *memory, size_t most, int32_t value, size_t size) {
    if (size > most) return ACL_ERROR_RT_PARAM_INVALID;
    memset(memory, value, size);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void *memory, size_t most, int32_t value, size_t size, void *stream) {
    return aclrtMemset(memory, most, value, size);
}

// --- virtual memory, for growing segments, the sleep mode of engines and the memory saver ------------------------------
// A reserved range of addresses has no access rights; a physical block is a file in memory that is mapped into a range.

struct physical {
    int file;
    size_t size;
    int32_t device;
};

struct range {
    void *at;
    size_t size;
    struct range *next;
};

static struct range *reserved, *mapped;

static aclError remember(struct range **list, void *at, size_t size) {
    struct range *range = malloc(sizeof *range);
    if (!range) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    pthread_mutex_lock(&lock);
    *range = (struct range){at, size, *list};
    *list = range;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

// removes the range that begins at an address, and returns its size, or 0 where there is none
static size_t forget(struct range **list, void *at) {
    size_t size = 0;
    pthread_mutex_lock(&lock);
    for (struct range **link = list; *link; link = &(*link)->next) {
        if ((*link)->at != at) continue;
        struct range *found = *link;
        size = found->size;
        *link = found->next;
        free(found);
        break;
    }
    pthread_mutex_unlock(&lock);
    return size;
}

static void *without_access(void *at, size_t size, int flags) {
    return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

aclError aclrtMemGetAllocationGranularity(void *properties, int option, size_t *size) {
    *size = GRANULARITY;
    return ACL_SUCCESS;
}

aclError aclrtReserveMemAddress(void **range, size_t size, size_t alignment, void *wanted, uint64_t flags) {
    void *at = without_access(wanted, size, 0);
    if (at == MAP_FAILED) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *range = at;
    return remember(&reserved, at, size);
}

aclError aclrtReleaseMemAddress(void *range) {
    size_t size = forget(&reserved, range);
    if (!size) return ACL_ERROR_RT_PARAM_INVALID;
    munmap(range, size);
    return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(void **handle, size_t size, const void *properties, uint64_t flags) {
    aclError error = take(size);
    if (error) return error;
    struct physical *block = malloc(sizeof *block);
    int file = memfd_create("npu", 0);
    if (!block || file < 0 || ftruncate(file, size)) {
        if (file >= 0) close(file);
        free(block);
        give_back(current, size);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *block = (struct physical){file, size, current};
    *handle = block;
    return ACL_SUCCESS;
}

aclError aclrtFreePhysical(void *handle) {
    struct physical *block = handle;
    give_back(block->device, block->size);
    close(block->file);
    free(block);
    return ACL_SUCCESS;
}

aclError aclrtMapMem(void *at, size_t size, size_t offset, void *handle, uint64_t flags) {
    struct physical *block = handle;
    void *made = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, block->file, offset);
    return made == MAP_FAILED ? ACL_ERROR_RT_MEMORY_ALLOCATION : remember(&mapped, at, size);
}

aclError aclrtUnmapMem(void *at) {
    size_t size = forget(&mapped, at);
    if (!size) return ACL_ERROR_RT_PARAM_INVALID;
    without_access(at, size, MAP_FIXED);
    return ACL_SUCCESS;
}

// --- streams and events ------------------------------------------------------------------------------------------------

struct stream {
    int32_t id;
};

struct event {
    struct timespec recorded;
};

aclError aclrtCreateStream(void **stream) {
    static int32_t made;
    struct stream *new = malloc(sizeof *new);
    new->id = __sync_fetch_and_add(&made, 1);
    *stream = new;
    return ACL_SUCCESS;
}

aclError aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flags) { return aclrtCreateStream(stream); }

aclError aclrtDestroyStream(void *stream) {
    free(stream);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(void *stream) { return aclrtDestroyStream(stream); }

aclError aclrtStreamGetId(void *stream, int32_t *id) {
    *id = stream ? ((struct stream *)stream)->id : 0;
    return ACL_SUCCESS;
}

aclError aclrtStreamQuery(void *stream, int *status) {
    *status = 0;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void) { return ACL_SUCCESS; }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds) { return ACL_SUCCESS; }
aclError aclrtSynchronizeStream(void *stream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeStreamWithTimeout(void *stream, int32_t milliseconds) { return ACL_SUCCESS; }
aclError aclrtStreamWaitEvent(void *stream, void *event) { return ACL_SUCCESS; }
aclError aclrtSetStreamFailureMode(void *stream, uint64_t mode) { return ACL_SUCCESS; }
aclError aclrtSetStreamAttribute(void *stream, int attribute, void *value) { return ACL_SUCCESS; }
aclError aclrtSetStreamOverflowSwitch(void *stream, uint32_t on) { return ACL_SUCCESS; }

aclError aclrtGetStreamOverflowSwitch(void *stream, uint32_t *on) {
    *on = 0;
    return ACL_SUCCESS;
}

aclError aclrtCreateEvent(void **event) {
    *event = calloc(1, sizeof(struct event));
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(void **event, uint32_t flags) { return aclrtCreateEvent(event); }
aclError aclrtCreateEventExWithFlag(void **event, uint32_t flags) { return aclrtCreateEvent(event); }

aclError aclrtDestroyEvent(void *event) {
    free(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(void *event, void *stream) {
    clock_gettime(CLOCK_MONOTONIC, &((struct event *)event)->recorded);
    return ACL_SUCCESS;
}

aclError aclrtResetEvent(void *event, void *stream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeEvent(void *event) { return ACL_SUCCESS; }
aclError aclrtSynchronizeEventWithTimeout(void *event, int32_t milliseconds) { return ACL_SUCCESS; }

aclError aclrtQueryEvent(void *event, int *status) {
    *status = 0;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(void *event, int *status) {
    *status = 1;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(void *event, int *status) {
    *status = 0;
    return ACL_SUCCESS;
}

static double milliseconds(const struct event *event) {
    return event->recorded.tv_sec * 1e3 + event->recorded.tv_nsec / 1e6;
}

aclError aclrtEventElapsedTime(float *elapsed, void *from, void *to) {
    *elapsed = milliseconds(to) - milliseconds(from);
    return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(void *event, uint64_t *microseconds) {
    *microseconds = milliseconds(event) * 1e3;
    return ACL_SUCCESS;
}

// callbacks of the host run at once
aclError aclrtSubscribeReport(uint64_t thread, void *stream) { return ACL_SUCCESS; }
aclError aclrtUnSubscribeReport(uint64_t thread, void *stream) { return ACL_SUCCESS; }

aclError aclrtProcessReport(int32_t timeout) {
    usleep(1000);
    return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(void (*callback)(void *), void *data, int block, void *stream) {
    callback(data);
    return ACL_SUCCESS;
}

aclError aclrtLaunchHostFunc(void *stream, void (*callback)(void *), void *data) {
    callback(data);
    return ACL_SUCCESS;
}

// --- operators: there are none, but their descriptions are real, so that a missing one fails with an exception ----------

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
