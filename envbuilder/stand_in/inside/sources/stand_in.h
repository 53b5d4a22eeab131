// What the parts of the stand-in share. Names and signatures are those of the public headers of CANN; the code is ours.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int aclError;
enum {
    ACL_SUCCESS = 0,
    ACL_ERROR_INVALID_PARAM = 100000,
    ACL_ERROR_RT_PARAM_INVALID = 107000,
    ACL_ERROR_RT_INVALID_DEVICEID = 107001,
    ACL_ERROR_RT_CONTEXT_NULL = 107002,
    ACL_ERROR_API_NOT_SUPPORT = 200001,
    ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
};

// Every missing function calls this with its name: the caller gets an error, and
// aclGetRecentErrMsg names the function.
long stand_in_missing(const char *function);

// a setting of the stand-in, or the default where the variable is unset or empty
const char *stand_in_setting(const char *variable, const char *otherwise);

// the device of a thread, or -1 where none was set
enum { MOST_DEVICES = 64 };
extern __thread int32_t stand_in_device;
