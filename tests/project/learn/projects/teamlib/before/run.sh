#!/bin/bash
export TEAM_GPU_POOL=4
python train.py --device cuda
