# There is no Ascend Transformer Boost to find; scripts only ask that this file is there.
export ATB_HOME_PATH="${ATB_HOME_PATH:-/usr/local/Ascend/nnal/atb}"
