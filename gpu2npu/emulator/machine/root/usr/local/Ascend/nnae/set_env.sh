# The toolkit's set_env.sh says everything: there is no compiler to find.
. "${ASCEND_TOOLKIT_HOME:-/usr/local/Ascend/ascend-toolkit/latest}/set_env.sh"
