// What the host code of older releases of vllm-ascend asks about the chip, so that it compiles.
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
