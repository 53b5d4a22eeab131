// The ACL runtime: the process, the versions, devices and contexts.
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread char message[512];

const char *stand_in_setting(const char *variable, const char *otherwise) {
    const char *value = getenv(variable);
    return value && *value ? value : otherwise;
}

long stand_in_missing(const char *function) {
    snprintf(message, sizeof message, "stand-in of CANN: %s needs an NPU", function);
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

__thread int32_t stand_in_device = -1;
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
    stand_in_device = device;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device) {
    if (stand_in_device < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    *device = stand_in_device;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(void **context) {
    if (stand_in_device < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    *context = contexts + stand_in_device;
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(void *context) {
    stand_in_device = (char *)context - contexts;
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

// the number of cores, the same for every kind of core
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

