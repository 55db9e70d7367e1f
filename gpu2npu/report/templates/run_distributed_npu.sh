#!/usr/bin/env bash
# Written by gpu2npu. Starts a training program once for each NPU of this machine:
#
#     ./run_distributed_npu.sh python train.py --epochs 3
#
# Or fill in the command here, once, and start the script without arguments.
COMMAND=() # <-- FILL IN, for example: COMMAND=(python train.py --epochs 3)
#
# A program that starts its own processes (torch.multiprocessing.spawn, torchrun) needs no launcher: run it directly.
#
# Read from the environment:
#     NPUS                       how many NPUs to use; default: those that are visible
#     ASCEND_RT_VISIBLE_DEVICES  which NPUs are visible, for example 0,1,4,5; default: all of this machine
#     MASTER_ADDR, MASTER_PORT   where rank 0 listens; default: 127.0.0.1 and 29500
#     LOG_DIR                    the folder for one log a rank; default: npu_logs
#
# Exported to each process: MASTER_ADDR, MASTER_PORT, RANK_SIZE, RANK_ID, DEVICE_ID, WORLD_SIZE, RANK, LOCAL_RANK.
# Exits with 0 when every rank did; as soon as one fails, stops the others and exits with that rank's code.

set -euo pipefail
# Each rank gets a process group of its own, so that stopping it stops its data loaders too.
set -m

refuse() {
    echo "run_distributed_npu.sh: $1" >&2
    exit 2
}

if (($# > 0)); then
    COMMAND=("$@")
fi
if ((${#COMMAND[@]} == 0)); then
    refuse "give the training command as arguments (./run_distributed_npu.sh python train.py), or fill in COMMAND in this script"
fi

visible_npus() {
    local devices
    shopt -s nullglob
    devices=(/dev/davinci[0-9]*)
    if [[ -n "${ASCEND_RT_VISIBLE_DEVICES:-}" ]]; then
        IFS=',' read -r -a devices <<<"$ASCEND_RT_VISIBLE_DEVICES"
        echo "${#devices[@]}"
    elif ((${#devices[@]} > 0)); then
        echo "${#devices[@]}"
    else
        # No NPU in this machine: as many as `gpu2npu run --npus` emulates.
        echo "${GPU2NPU_NPUS:-8}"
    fi
}

VISIBLE=$(visible_npus)
NPUS=${NPUS:-$VISIBLE}
[[ "$NPUS" =~ ^[1-9][0-9]*$ ]] || refuse "NPUS is '$NPUS', which is not a number of NPUs"
((NPUS <= VISIBLE)) || refuse "NPUS is $NPUS, but $VISIBLE NPUs are visible"

export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
export MASTER_PORT=${MASTER_PORT:-29500}
export RANK_SIZE=$NPUS WORLD_SIZE=$NPUS
LOG_DIR=${LOG_DIR:-npu_logs}
mkdir -p "$LOG_DIR"

PIDS=()

stop_all() {
    local pid
    for pid in ${PIDS[@]+"${PIDS[@]}"}; do
        kill -TERM -- "-$pid" 2>/dev/null || true
    done
    for _ in {1..50}; do
        [[ -n "$(jobs -rp)" ]] || return 0
        sleep 0.1
    done
    for pid in "${PIDS[@]}"; do
        kill -KILL -- "-$pid" 2>/dev/null || true
    done
}

trap 'stop_all; exit 129' HUP
trap 'stop_all; exit 130' INT
trap 'stop_all; exit 143' TERM

for ((rank = 0; rank < NPUS; rank++)); do
    (
        export RANK=$rank RANK_ID=$rank LOCAL_RANK=$rank DEVICE_ID=$rank
        exec "${COMMAND[@]}"
    ) >"$LOG_DIR/rank_$rank.log" 2>&1 </dev/null &
    PIDS+=("$!")
done
echo "Started $NPUS ranks of: ${COMMAND[*]} (logs: $LOG_DIR/rank_*.log)"

finished=0
while ((finished < NPUS)); do
    sleep 0.2
    running=" $(jobs -rp | tr '\n' ' ')"
    for rank in "${!PIDS[@]}"; do
        pid=${PIDS[$rank]}
        [[ "$running" != *" $pid "* ]] || continue
        status=0
        wait "$pid" || status=$?
        if ((status != 0)); then
            echo "Rank $rank failed with exit code $status; the end of $LOG_DIR/rank_$rank.log:" >&2
            tail -n 20 "$LOG_DIR/rank_$rank.log" >&2
            stop_all
            exit "$status"
        fi
        unset "PIDS[$rank]"
        finished=$((finished + 1))
    done
done
echo "All $NPUS ranks finished."
