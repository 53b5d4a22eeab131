[[ -v ENVBUILDER_SETUP ]] || {
export ENVBUILDER_SETUP=1
source /usr/local/Ascend/ascend-toolkit/set_env.sh
source /usr/local/Ascend/nnal/atb/set_env.sh
}
