// The functions of libprofapi that torch_npu reports to; it finds them through libascendcl. Nothing is recorded.
#include <stddef.h>
#include <stdint.h>
#include <time.h>

int32_t MsprofRegisterCallback(uint32_t module, void *callback) { return 0; }

int32_t MsprofReportApi(uint32_t temporary, const void *call) { return 0; }

int32_t MsprofReportCompactInfo(uint32_t temporary, void *data, uint32_t length) { return 0; }

int32_t MsprofReportAdditionalInfo(uint32_t temporary, void *data, uint32_t length) { return 0; }

uint64_t MsprofGetHashId(const char *text, size_t length) { return 0; }

uint64_t MsprofSysCycleTime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
