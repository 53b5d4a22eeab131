// The declarations of the runtime's header against which triton-ascend compiles when it is imported.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rtError_t;
typedef void *rtStream_t;
typedef uint32_t rtMemType_t;

#define RT_ERROR_NONE 0
#define RT_DEV_BINARY_MAGIC_ELF 0x43554245U
#define RT_DEV_BINARY_MAGIC_ELF_AIVEC 0x41415246U
#define RT_DEV_BINARY_MAGIC_ELF_AICUBE 0x41494343U
#define RT_MEMORY_HBM 2U
#define RT_MEMORY_HOST 8U

typedef struct tagRtDevBinary {
    uint32_t magic, version;
    const void *data;
    uint64_t length;
} rtDevBinary_t;

typedef enum {
    RT_MEMCPY_HOST_TO_HOST,
    RT_MEMCPY_HOST_TO_DEVICE,
    RT_MEMCPY_DEVICE_TO_HOST,
    RT_MEMCPY_DEVICE_TO_DEVICE,
} rtMemcpyKind_t;

typedef enum {
    RT_LIMIT_TYPE_LOW_POWER_TIMEOUT = 0,
    RT_LIMIT_TYPE_STACK_SIZE = 1,
    RT_LIMIT_TYPE_SIMT_PRINTF_FIFO_SIZE = 4,
    RT_LIMIT_TYPE_SIMT_WARP_STACK_SIZE,
    RT_LIMIT_TYPE_SIMT_DVG_WARP_STACK_SIZE,
} rtLimitType_t;

rtError_t rtSetDevice(int32_t device);
rtError_t rtGetSocVersion(char *name, uint32_t size);
rtError_t rtGetAiCoreCount(uint32_t *count);
rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle);
rtError_t rtFunctionRegister(void *handle, const void *stub, const char *name, const void *function, uint32_t mode);
rtError_t rtStreamCreate(rtStream_t *stream, int32_t priority);
rtError_t rtStreamDestroy(rtStream_t stream);
rtError_t rtMalloc(void **memory, uint64_t size, rtMemType_t type, uint16_t module);
rtError_t rtFree(void *memory);
rtError_t rtMallocHost(void **memory, uint64_t size, uint16_t module);
rtError_t rtFreeHost(void *memory);
rtError_t rtMemcpy(void *to, uint64_t most, const void *from, uint64_t size, rtMemcpyKind_t kind);
rtError_t rtDeviceSetLimit(int32_t device, rtLimitType_t type, uint32_t value);

#ifdef __cplusplus
}
#endif
