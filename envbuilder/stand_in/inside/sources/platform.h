// The facts about the chip that the host code of older releases of vllm-ascend needs to compile.
#pragma once
#include <cstdint>
#include <string>

namespace fe {

class PlatFormInfos {
public:
    uint32_t GetCoreNumByType(const std::string &type);
};

class PlatformInfoManager {
public:
    static PlatformInfoManager &GeInstance();
    uint32_t GetRuntimePlatformInfosByDevice(uint32_t device, PlatFormInfos &found, bool create = false);
};

}
