// A stand-in of HCCL for the ranks of one host. A communicator is a file in /dev/shm with a barrier and a slot for each rank;
// messages between two ranks are files of their own. A call has moved its data when it returns.
#define _GNU_SOURCE
#include "stand_in.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int HcclResult;
enum { HCCL_SUCCESS = 0, HCCL_E_PARA = 1, HCCL_E_INTERNAL = 4, HCCL_E_NOT_SUPPORT = 5, HCCL_E_TIMEOUT = 9 };
enum { SLOT = 1 << 22, ROOT_INFO = 4108, NAME = 128 };

#define SHM "/dev/shm/"
#define TRY(call) do { HcclResult result = (call); if (result) return result; } while (0)

struct shared {
    _Atomic uint32_t arrived, generation;
    char padding[4088];
    unsigned char slots[];
};

struct communicator {
    uint32_t ranks, rank;
    struct shared *shared;
    size_t size;
    // how many messages went to each rank, and came from it
    uint64_t *sent, *received;
    char path[NAME];
};

static unsigned char *slot_of(struct communicator *c, uint32_t rank) { return c->shared->slots + (size_t)rank * SLOT; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int patience(void) { return atoi(stand_in_setting("HCCL_EXEC_TIMEOUT", "600")); }

// in the order of HcclDataType
static uint64_t bytes_of(int type) {
    static const unsigned char bytes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

// --- communicators -----------------------------------------------------------------------------------------------------

static HcclResult barrier(struct communicator *c) {
    if (c->ranks == 1) return HCCL_SUCCESS;
    _Atomic uint32_t *generation = &c->shared->generation;
    uint32_t before = atomic_load(generation);
    if (atomic_fetch_add(&c->shared->arrived, 1) + 1 == c->ranks) {
        atomic_store(&c->shared->arrived, 0);
        atomic_fetch_add(generation, 1);
        syscall(SYS_futex, generation, FUTEX_WAKE, c->ranks, NULL, NULL, 0);
        return HCCL_SUCCESS;
    }
    struct timespec second = {1, 0};
    for (int waited = 0; atomic_load(generation) == before;) {
        int woken = !syscall(SYS_futex, generation, FUTEX_WAIT, before, &second, NULL, 0);
        if (!woken && errno == ETIMEDOUT && ++waited > patience()) {
            fprintf(stderr, "stand-in of CANN: HCCL rank %u of %u waited %d s for the others\n", c->rank, c->ranks, waited);
            return HCCL_E_TIMEOUT;
        }
    }
    return HCCL_SUCCESS;
}

static HcclResult share(struct communicator *c) {
    c->size = sizeof *c->shared + (size_t)c->ranks * SLOT;
    int file = open(c->path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, c->size)) {
        perror(c->path);
        if (file >= 0) close(file);
        return HCCL_E_INTERNAL;
    }
    void *memory = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return HCCL_E_INTERNAL;
    c->shared = memory;
    TRY(barrier(c));
    // every rank has it open now
    if (c->rank == 0) unlink(c->path);
    return HCCL_SUCCESS;
}

static HcclResult make(uint32_t ranks, const char *name, uint32_t rank, void **made) {
    struct communicator *c = calloc(1, sizeof *c);
    c->ranks = ranks, c->rank = rank;
    c->sent = calloc(ranks, sizeof *c->sent), c->received = calloc(ranks, sizeof *c->received);
    snprintf(c->path, sizeof c->path, SHM "%s", name);
    *made = c;
    return ranks > 1 ? share(c) : HCCL_SUCCESS;
}

HcclResult HcclGetRootInfo(void *info) {
    static _Atomic int made;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    memset(info, 0, ROOT_INFO);
    snprintf(info, NAME, "stand-in-hccl-%d-%d-%ld%09ld", getpid(), made++, (long)now.tv_sec, now.tv_nsec);
    return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfo(uint32_t ranks, const void *info, uint32_t rank, void **made) {
    return make(ranks, info, rank, made);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const void *info, uint32_t rank, const void *config, void **made) {
    return make(ranks, info, rank, made);
}

HcclResult HcclCreateSubCommConfig(void **whole, uint32_t ranks, uint32_t *members, uint64_t id, uint32_t rank, void *config,
                                   void **made) {
    *made = NULL;
    if (!members) return HCCL_SUCCESS;  // this rank is not one of them
    char name[NAME];
    const char *parent = ((struct communicator *)*whole)->path + strlen(SHM);
    snprintf(name, sizeof name, "%.80s-%lu", parent, (unsigned long)id);
    return make(ranks, name, rank, made);
}

HcclResult HcclCommDestroy(void *communicator) {
    struct communicator *c = communicator;
    if (c->shared) munmap(c->shared, c->size);
    free(c->sent);
    free(c->received);
    free(c);
    return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(void *communicator, char *name) {
    snprintf(name, NAME, "%s", ((struct communicator *)communicator)->path + strlen(SHM));
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(void *communicator, uint32_t *ranks) {
    *ranks = ((struct communicator *)communicator)->ranks;
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(void *communicator, uint32_t *rank) {
    *rank = ((struct communicator *)communicator)->rank;
    return HCCL_SUCCESS;
}

HcclResult HcclGetCommAsyncError(void *communicator, int *error) {
    *error = HCCL_SUCCESS;
    return HCCL_SUCCESS;
}

HcclResult HcclSetConfig(int key, int value) { return HCCL_SUCCESS; }

HcclResult HcclGetConfig(int key, int *value) {
    *value = 0;
    return HCCL_SUCCESS;
}

uint32_t HcclGetCommConfigCapability(void) { return 0; }

const char *HcclGetErrorString(int code) {
    return code == HCCL_E_TIMEOUT ? "stand-in of CANN: HCCL timed out" : "stand-in of CANN: HCCL failed";
}

HcclResult HcclBarrier(void *communicator, void *stream) { return barrier(communicator); }

// --- reductions --------------------------------------------------------------------------------------------------------

static float from_bfloat16(uint16_t value) {
    union { uint32_t bits; float number; } wide = {(uint32_t)value << 16};
    return wide.number;
}

// rounds to the nearest, halves to the even one
static uint16_t to_bfloat16(float value) {
    union { float number; uint32_t bits; } wide = {value};
    if (value != value) return 0x7fc0;
    return (wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16;
}

enum { SUM, PROD, MAX, MIN };
#define COMBINED(a, b) (op == SUM ? (a) + (b) : op == PROD ? (a) * (b) : op == MAX ? ((a) > (b) ? (a) : (b)) : ((a) < (b) ? (a) : (b)))
#define COMBINE(type) { type *x = into; const type *y = from; for (uint64_t i = 0; i < count; i++) x[i] = COMBINED(x[i], y[i]); return HCCL_SUCCESS; }

static HcclResult combine(void *into, const void *from, uint64_t count, int type, int op) {
    switch (type) {
    case 0: COMBINE(int8_t)
    case 1: COMBINE(int16_t)
    case 2: COMBINE(int32_t)
#ifdef __FLT16_MAX__  // gcc has it on x86_64 from version 12 on
    case 3: COMBINE(_Float16)
#endif
    case 4: COMBINE(float)
    case 5: COMBINE(int64_t)
    case 6: COMBINE(uint64_t)
    case 7: COMBINE(uint8_t)
    case 8: COMBINE(uint16_t)
    case 9: COMBINE(uint32_t)
    case 10: COMBINE(double)
    case 11: {
        uint16_t *x = into;
        const uint16_t *y = from;
        for (uint64_t i = 0; i < count; i++) x[i] = to_bfloat16(COMBINED(from_bfloat16(x[i]), from_bfloat16(y[i])));
        return HCCL_SUCCESS;
    }
    }
    return HCCL_E_NOT_SUPPORT;
}

// Every rank contributes `from`. Where `into` is given, it becomes the reduction of all, in the order of the ranks, so that
// the result is the same on each of them.
static HcclResult reduce(struct communicator *c, const char *from, char *into, uint64_t count, int type, int op) {
    uint64_t width = bytes_of(type);
    if (!width) return HCCL_E_NOT_SUPPORT;
    if (c->ranks == 1) {
        if (into && into != from) memmove(into, from, count * width);
        return HCCL_SUCCESS;
    }
    for (uint64_t at = 0; at < count; at += SLOT / width) {
        uint64_t part = least(count - at, SLOT / width);
        memcpy(slot_of(c, c->rank), from + at * width, part * width);
        TRY(barrier(c));
        if (into) {
            memcpy(into + at * width, slot_of(c, 0), part * width);
            for (uint32_t rank = 1; rank < c->ranks; rank++) TRY(combine(into + at * width, slot_of(c, rank), part, type, op));
        }
        TRY(barrier(c));
    }
    return HCCL_SUCCESS;
}

HcclResult HcclAllReduce(void *from, void *into, uint64_t count, int type, int op, void *communicator, void *stream) {
    return reduce(communicator, from, into, count, type, op);
}

HcclResult HcclReduce(void *from, void *into, uint64_t count, int type, int op, uint32_t root, void *communicator,
                      void *stream) {
    struct communicator *c = communicator;
    return reduce(c, from, c->rank == root ? into : NULL, count, type, op);
}

HcclResult HcclReduceScatter(void *from, void *into, uint64_t count, int type, int op, void *communicator, void *stream) {
    struct communicator *c = communicator;
    uint64_t size = count * bytes_of(type);
    // `from` and `into` may overlap
    char *own = malloc(size + 1);
    HcclResult result = HCCL_SUCCESS;
    for (uint32_t rank = 0; rank < c->ranks && !result; rank++)
        result = reduce(c, (char *)from + rank * size, rank == c->rank ? own : NULL, count, type, op);
    if (!result) memcpy(into, own, size);
    free(own);
    return result;
}

// --- copies from one rank to all, and from all to all --------------------------------------------------------------------

HcclResult HcclBroadcast(void *data, uint64_t count, int type, uint32_t root, void *communicator, void *stream) {
    struct communicator *c = communicator;
    uint64_t size = count * bytes_of(type);
    for (uint64_t at = 0; c->ranks > 1 && at < size; at += SLOT) {
        uint64_t part = least(size - at, SLOT);
        if (c->rank == root) memcpy(slot_of(c, root), (char *)data + at, part);
        TRY(barrier(c));
        if (c->rank != root) memcpy((char *)data + at, slot_of(c, root), part);
        TRY(barrier(c));
    }
    return HCCL_SUCCESS;
}

HcclResult HcclAllGather(void *from, void *into, uint64_t count, int type, void *communicator, void *stream) {
    struct communicator *c = communicator;
    uint64_t size = count * bytes_of(type);
    if (c->ranks == 1) {
        memmove(into, from, size);
        return HCCL_SUCCESS;
    }
    for (uint64_t at = 0; at < size; at += SLOT) {
        uint64_t part = least(size - at, SLOT);
        memcpy(slot_of(c, c->rank), (char *)from + at, part);
        TRY(barrier(c));
        for (uint32_t rank = 0; rank < c->ranks; rank++) memcpy((char *)into + rank * size + at, slot_of(c, rank), part);
        TRY(barrier(c));
    }
    return HCCL_SUCCESS;
}

// --- messages ------------------------------------------------------------------------------------------------------------

static void message_path(struct communicator *c, uint32_t from, uint32_t to, uint64_t number, char path[2 * NAME]) {
    snprintf(path, 2 * NAME, "%s.%u.%u.%lu", c->path, from, to, (unsigned long)number);
}

static HcclResult put(struct communicator *c, uint32_t to, const void *data, uint64_t size) {
    char path[2 * NAME], unfinished[2 * NAME + 8];
    message_path(c, c->rank, to, c->sent[to]++, path);
    snprintf(unfinished, sizeof unfinished, "%s.part", path);
    FILE *file = fopen(unfinished, "wb");
    if (!file) return HCCL_E_INTERNAL;
    int written = fwrite(data, 1, size, file) == size;
    return fclose(file) || !written || rename(unfinished, path) ? HCCL_E_INTERNAL : HCCL_SUCCESS;
}

static HcclResult get(struct communicator *c, uint32_t from, void *data, uint64_t size) {
    enum { NAP = 200 };  // microseconds
    char path[2 * NAME];
    message_path(c, from, c->rank, c->received[from]++, path);
    FILE *file;
    for (long waited = 0; !(file = fopen(path, "rb")); waited += NAP) {
        if (waited / 1000000 > patience()) return HCCL_E_TIMEOUT;
        usleep(NAP);
    }
    uint64_t found = fread(data, 1, size, file);
    fclose(file);
    unlink(path);
    return found == size ? HCCL_SUCCESS : HCCL_E_PARA;
}

HcclResult HcclSend(void *data, uint64_t count, int type, uint32_t to, void *communicator, void *stream) {
    return put(communicator, to, data, count * bytes_of(type));
}

HcclResult HcclRecv(void *data, uint64_t count, int type, uint32_t from, void *communicator, void *stream) {
    return get(communicator, from, data, count * bytes_of(type));
}

struct item {
    int direction;  // 0 sends, 1 receives
    void *data;
    uint64_t count;
    int type;
    uint32_t peer;
};

// all sends first: they never wait
HcclResult HcclBatchSendRecv(struct item *items, uint32_t count, void *communicator, void *stream) {
    for (int direction = 0; direction < 2; direction++)
        for (struct item *item = items; item < items + count; item++) {
            uint64_t size = item->count * bytes_of(item->type);
            if (item->direction == direction)
                TRY(direction ? get(communicator, item->peer, item->data, size) : put(communicator, item->peer, item->data, size));
        }
    return HCCL_SUCCESS;
}

HcclResult HcclAlltoAllV(const void *from, const uint64_t *counts, const uint64_t *offsets, int type, void *into,
                         const uint64_t *into_counts, const uint64_t *into_offsets, int into_type, void *communicator,
                         void *stream) {
    struct communicator *c = communicator;
    uint64_t width = bytes_of(type), into_width = bytes_of(into_type);
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        TRY(put(c, rank, (const char *)from + offsets[rank] * width, counts[rank] * width));
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        TRY(get(c, rank, (char *)into + into_offsets[rank] * into_width, into_counts[rank] * into_width));
    return HCCL_SUCCESS;
}

HcclResult HcclAlltoAll(const void *from, uint64_t count, int type, void *into, uint64_t into_count, int into_type,
                        void *communicator, void *stream) {
    struct communicator *c = communicator;
    uint64_t size = count * bytes_of(type), into_size = into_count * bytes_of(into_type);
    for (uint32_t rank = 0; rank < c->ranks; rank++) TRY(put(c, rank, (const char *)from + rank * size, size));
    for (uint32_t rank = 0; rank < c->ranks; rank++) TRY(get(c, rank, (char *)into + rank * into_size, into_size));
    return HCCL_SUCCESS;
}

HcclResult HcclScatter(void *from, void *into, uint64_t count, int type, uint32_t root, void *communicator, void *stream) {
    struct communicator *c = communicator;
    uint64_t size = count * bytes_of(type);
    for (uint32_t rank = 0; c->rank == root && rank < c->ranks; rank++) TRY(put(c, rank, (char *)from + rank * size, size));
    return get(c, root, into, size);
}
