// The part of libruntime that triton-ascend and torch_npu call, over the stand-in of ACL. Kernels cannot be registered.
#include "rt.h"
#include "stand_in.h"
#include <stdio.h>

const char *aclrtGetSocName(void);
aclError aclrtSetDevice(int32_t device);
aclError aclrtCreateStream(void **stream);
aclError aclrtDestroyStream(void *stream);
aclError aclrtMalloc(void **memory, size_t size, int policy);
aclError aclrtFree(void *memory);
aclError aclrtMallocHost(void **memory, size_t size);
aclError aclrtFreeHost(void *memory);
aclError aclrtMemcpy(void *to, size_t most, const void *from, size_t size, int kind);

rtError_t rtSetDevice(int32_t device) { return aclrtSetDevice(device); }

rtError_t rtGetSocVersion(char *name, uint32_t size) {
    snprintf(name, size, "%s", aclrtGetSocName());
    return RT_ERROR_NONE;
}

rtError_t rtGetAiCoreCount(uint32_t *count) {
    *count = 24;
    return RT_ERROR_NONE;
}

rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle) { return stand_in_missing(__func__); }

rtError_t rtFunctionRegister(void *handle, const void *stub, const char *name, const void *function, uint32_t mode) {
    return stand_in_missing(__func__);
}

rtError_t rtKernelLaunch(
    const void *stub, uint32_t blocks, void *arguments, uint32_t size, void *description, rtStream_t stream
) {
    return stand_in_missing(__func__);
}

rtError_t rtStreamCreate(rtStream_t *stream, int32_t priority) { return aclrtCreateStream(stream); }
rtError_t rtStreamDestroy(rtStream_t stream) { return aclrtDestroyStream(stream); }
rtError_t rtMalloc(void **memory, uint64_t size, rtMemType_t type, uint16_t module) { return aclrtMalloc(memory, size, 0); }
rtError_t rtFree(void *memory) { return aclrtFree(memory); }
rtError_t rtMallocHost(void **memory, uint64_t size, uint16_t module) { return aclrtMallocHost(memory, size); }
rtError_t rtFreeHost(void *memory) { return aclrtFreeHost(memory); }

rtError_t rtMemcpy(void *to, uint64_t most, const void *from, uint64_t size, rtMemcpyKind_t kind) {
    return aclrtMemcpy(to, most, from, size, kind);
}

rtError_t rtDeviceSetLimit(int32_t device, rtLimitType_t type, uint32_t value) { return RT_ERROR_NONE; }
