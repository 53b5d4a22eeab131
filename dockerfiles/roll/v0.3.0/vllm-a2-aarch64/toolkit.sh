# Sets up the vendor's toolkit for source builds. A builder has no driver: stub libraries take its place.
source /usr/local/Ascend/ascend-toolkit/set_env.sh &&
source /usr/local/Ascend/nnal/atb/set_env.sh &&
export LD_LIBRARY_PATH=/usr/local/Ascend/cann-8.5.1/runtime/lib64/stub:"$LD_LIBRARY_PATH" &&
export LD_LIBRARY_PATH=/usr/local/Ascend/cann-8.5.1/aarch64-linux/devlib/linux/aarch64:"$LD_LIBRARY_PATH" &&
export LD_LIBRARY_PATH=/usr/local/Ascend/cann-8.5.1/aarch64-linux/devlib:"$LD_LIBRARY_PATH"
