# What the toolkit's set_env.sh exports, for the emulated NPUs. `gpu2npu run` sets ASCEND_TOOLKIT_HOME beforehand.
export ASCEND_TOOLKIT_HOME="${ASCEND_TOOLKIT_HOME:-/usr/local/Ascend/ascend-toolkit/latest}"
export ASCEND_HOME_PATH="${ASCEND_TOOLKIT_HOME}"
export ASCEND_AICPU_PATH="${ASCEND_TOOLKIT_HOME}"
export ASCEND_OPP_PATH="${ASCEND_TOOLKIT_HOME}/opp"
export TOOLCHAIN_HOME="${ASCEND_TOOLKIT_HOME}/toolkit"
