// The ACL runtime: the memory of a device is memory of this host. Its amount is counted, so that "out of memory" and the
// free memory are as on a device.
#define _GNU_SOURCE
#include "stand_in.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, GRANULARITY = 2 << 20 };

struct block {
    size_t size;
    int32_t device;
    int file;
};

static size_t used[MOST_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t capacity(void) { return strtoull(stand_in_setting("STAND_IN_MEMORY_GIB", STAND_IN_MEMORY_GIB), NULL, 10) << 30; }

// takes the amount from what the device of this thread has, or gives an error
static aclError take(size_t size) {
    if (stand_in_device < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&lock);
    int fits = used[stand_in_device] + size <= capacity();
    if (fits) used[stand_in_device] += size;
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
        give_back(stand_in_device, size);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *(struct block *)raw = (struct block){size, stand_in_device, file};
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
    *available = *total - used[stand_in_device < 0 ? 0 : stand_in_device];
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
        give_back(stand_in_device, size);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *block = (struct physical){file, size, stand_in_device};
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

