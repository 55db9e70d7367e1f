#!/bin/bash
export TEAM_NPU_POOL=4
python train.py --device npu
