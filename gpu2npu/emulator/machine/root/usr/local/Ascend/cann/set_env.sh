# The place of the toolkit from CANN 8.5 on; what it exports is the same.
. "${ASCEND_TOOLKIT_HOME:-/usr/local/Ascend/ascend-toolkit/latest}/set_env.sh"
