[[ -v ENVBUILDER_SETUP ]] || {
export ENVBUILDER_SETUP=1
source /usr/local/Ascend/ascend-toolkit/set_env.sh
source /usr/local/Ascend/nnal/atb/set_env.sh
[[ ! -e /usr/lib/aarch64-linux-gnu/libjemalloc.so.2 ]] || export LD_PRELOAD=/usr/lib/aarch64-linux-gnu/libjemalloc.so.2${LD_PRELOAD:+:$LD_PRELOAD}
}
