// The ACL runtime: every call has done its work when it returns, so that streams and events have nothing to wait for.
#include "stand_in.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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

