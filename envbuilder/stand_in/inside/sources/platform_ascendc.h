// The facts about the chip that the host code of vllm-ascend needs to compile. The numbers belong to no real chip.
#pragma once
#include <cstdint>

namespace platform_ascendc {

enum class CoreMemType { L0_A, L0_B, L0_C, L1, L2, UB, HBM, RESERVED };
enum class SocVersion { ASCEND910, ASCEND910B, ASCEND310P, ASCEND310B, ASCEND910_93, ASCEND910_95, RESERVED_VERSION };

class PlatformAscendC {
public:
    uint32_t GetCoreNum() const { return 24; }
    uint32_t GetCoreNumAic() const { return 24; }
    uint32_t GetCoreNumAiv() const { return 48; }
    SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
    uint32_t GetLibApiWorkSpaceSize() const { return 16 << 20; }
    template <class Size> void GetCoreMemSize(const CoreMemType &, Size &size) const { size = 192 << 10; }
};

class PlatformAscendCManager {
public:
    static PlatformAscendC *GetInstance() {
        static PlatformAscendC only;
        return &only;
    }
};

}
