#!/usr/bin/env bash
# Written by gpu2npu. Starts a training program once for each NPU of this machine:
#
#     ./run_distributed_npu.sh python train.py --epochs 3
#
# The command between the brackets is what runs when none is given, in the folder of this script.
COMMAND=(please input your shell script here)
#
# A program that starts its own processes (torch.multiprocessing.spawn, torchrun) needs no launcher: run it directly.
#
# Read from the environment:
#     NPUS                       how many NPUs to use; default: those that are visible
#     ASCEND_RT_VISIBLE_DEVICES  which NPUs are visible, for example 0,1,4,5; default: all of this machine
#     MASTER_ADDR, MASTER_PORT   where rank 0 listens; default: 127.0.0.1 and a free port
#     NNODES, NODE_RANK          how many machines take part, and which of them this is, from 0; default: 1 and 0.
#                                On several, start the script on each, with the same MASTER_ADDR, that of machine 0,
#                                and the same MASTER_PORT (29500); torchrun then starts the ranks.
#     LOG_DIR                    the folder for one log a rank; default: npu_logs. Beside it output_npu_<rank>.log
#                                leads to each, the name that the vendor's launcher gives it
#     BIND_CORES                 0: let every rank run on all CPU cores, not on its share of them
#     ASCEND_HOME_PATH           CANN's folder; if it is not set, CANN's set_env.sh is sourced
#     STOP_SECONDS               how long a rank that has got SIGTERM may take before it is killed; default: 5
#
# Exported to each process: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, OMP_NUM_THREADS,
# and under the names of older programs RANK_SIZE, RANK_ID, DEVICE_ID.
#
# Exits with 0 when every rank did. As soon as one fails, shows the end of its log, stops the others with all that they
# have started, and exits with that rank's code.

set -euo pipefail

refuse() {
    echo "run_distributed_npu.sh: $1" >&2
    exit "${2:-2}"
}

((BASH_VERSINFO[0] >= 4)) || refuse "this needs bash 4 or newer, and is bash $BASH_VERSION"

if (($# > 0)); then
    COMMAND=("$@")
else
    cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
fi
if ((${#COMMAND[@]} == 0)) || [[ "${COMMAND[*]:0:4}" == "please input your shell" ]]; then
    refuse "give the training command as arguments (./run_distributed_npu.sh python train.py), or write it between the \
brackets of COMMAND=(...) in this script"
fi
command -v -- "${COMMAND[0]}" >/dev/null || refuse "there is no command '${COMMAND[0]}'" 127

# CANN's libraries and kernels are found by variables that its set_env.sh sets.
if [[ -z "${ASCEND_HOME_PATH:-}" ]]; then
    for place in /usr/local/Ascend /opt/Ascend "${HOME:-/root}/Ascend"; do
        for script in "$place/ascend-toolkit/set_env.sh" "$place/cann/set_env.sh"; do
            if [[ -z "${ASCEND_HOME_PATH:-}" && -f "$script" ]]; then
                set +eu # it reads variables that are not set
                # shellcheck disable=SC1090
                source "$script"
                set -eu
                echo "Took CANN's environment from $script"
            fi
        done
    done
    [[ -n "${ASCEND_HOME_PATH:-}" ]] || echo "run_distributed_npu.sh: CANN's environment is not set, and there is no \
set_env.sh in /usr/local/Ascend, /opt/Ascend or $HOME/Ascend: source CANN's set_env.sh first" >&2
fi

visible_npus() {
    local devices=() device installed count=0
    if [[ -n "${GPU2NPU_NPUS:-}" ]]; then # emulated by `gpu2npu run`
        installed=$GPU2NPU_NPUS
    else
        shopt -s nullglob
        devices=(/dev/davinci[0-9]*)
        installed=${#devices[@]}
    fi
    if [[ -z "${ASCEND_RT_VISIBLE_DEVICES+set}" ]]; then
        echo "$installed"
        return
    fi
    IFS=', ' read -r -a devices <<<"$ASCEND_RT_VISIBLE_DEVICES"
    for device in ${devices[@]+"${devices[@]}"}; do
        if [[ ! "$device" =~ ^[0-9]+$ ]] || ((10#$device >= installed)); then
            break
        fi
        count=$((count + 1))
    done
    echo "$count"
}

VISIBLE=$(visible_npus)
if ((VISIBLE == 0)) && [[ -n "${ASCEND_RT_VISIBLE_DEVICES+set}" ]]; then
    refuse "no NPU is visible: this machine has none of those that ASCEND_RT_VISIBLE_DEVICES names \
('$ASCEND_RT_VISIBLE_DEVICES')"
elif ((VISIBLE == 0)); then
    refuse "no NPU is visible: there is no /dev/davinci0 (is the driver installed, and does the container get the \
devices?); on a machine without NPUs, run: gpu2npu run bash run_distributed_npu.sh"
fi
NPUS=${NPUS:-$VISIBLE}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
[[ "$NPUS" =~ ^[1-9][0-9]*$ ]] || refuse "NPUS is '$NPUS', which is not a number of NPUs"
((NPUS <= VISIBLE)) || refuse "NPUS is $NPUS, but $VISIBLE NPUs are visible"
STOP_SECONDS=${STOP_SECONDS:-5}
[[ "$STOP_SECONDS" =~ ^[0-9]+$ ]] || refuse "STOP_SECONDS is '$STOP_SECONDS', which is not a number of seconds"
[[ "$NNODES" =~ ^[1-9][0-9]*$ ]] || refuse "NNODES is '$NNODES', which is not a number of machines"
if [[ ! "$NODE_RANK" =~ ^(0|[1-9][0-9]*)$ ]] || ((NODE_RANK >= NNODES)); then
    refuse "NODE_RANK is '$NODE_RANK'; with NNODES=$NNODES it goes from 0 to $((NNODES - 1))"
fi
if ((NNODES > 1)); then
    [[ -n "${MASTER_ADDR:-}" ]] || refuse "NNODES is $NNODES: set MASTER_ADDR to the address of machine 0"
    command -v torchrun >/dev/null || refuse "NNODES is $NNODES, and PyTorch's torchrun is not on PATH" 127
fi

# A port below those that the system gives away by itself, and that nothing listens on.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); do
        (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# The cores that this process may use, in one line: "0 1 2 3".
usable_cores() {
    local range ranges
    IFS=',' read -r -a ranges <<<"$(taskset -cp $$ | sed 's/.*: *//')"
    for range in "${ranges[@]}"; do
        seq "${range%-*}" "${range#*-}"
    done | tr '\n' ' '
}

export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
if [[ -z "${MASTER_PORT:-}" ]]; then
    MASTER_PORT=29500
    ((NNODES > 1)) || MASTER_PORT=$(free_port)
fi
export MASTER_PORT
export HCCL_WHITELIST_DISABLE=${HCCL_WHITELIST_DISABLE:-1} # releases of CANN before 8 ask for a list of hosts otherwise

read -r -a CORES <<<"$(usable_cores 2>/dev/null || true)"
((${#CORES[@]} > 0)) || read -r -a CORES <<<"$(seq -s ' ' 1 "$(nproc)")"
SHARE=$((${#CORES[@]} / NPUS)) # the cores of one rank
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((SHARE > 0 ? SHARE : 1))}
if ((SHARE == 0)) || [[ "${BIND_CORES:-1}" == 0 ]] || ! taskset -cp $$ >/dev/null 2>&1; then
    SHARE=0
fi

LOG_DIR=${LOG_DIR:-npu_logs}
mkdir -p -- "$LOG_DIR"

CHILDREN=() # what this script has started, by rank; torchrun alone on several machines
LEADERS=()  # the ranks that torchrun has started: each, like each child, leads a process group
FAILED=()   # the ranks that ended with another exit code than 0, in the order in which they did
declare -A STATUS=()

# Runs in a process of its own with RANK and LOCAL_RANK set.
run_rank() {
    local bound=() status=0
    if ((SHARE > 0)); then
        bound=(taskset -c "$(IFS=,; echo "${CORES[*]:LOCAL_RANK * SHARE:SHARE}")")
    fi
    export RANK_ID=$RANK RANK_SIZE=$WORLD_SIZE DEVICE_ID=$LOCAL_RANK
    trap : HUP INT TERM # outlive the command, which gets these signals too
    echo "started $RANK $BASHPID" >>"$MESSAGES"
    ln -sfn -- "$(basename -- "$LOG_DIR")/rank_$RANK.log" "$(dirname -- "$LOG_DIR")/output_npu_$RANK.log" || true
    ${bound[@]+"${bound[@]}"} "${COMMAND[@]}" >"$LOG_DIR/rank_$RANK.log" 2>&1 </dev/null || status=$?
    echo "ended $RANK $status" >>"$MESSAGES"
    exit "$status"
}

signal_all() {
    local leader
    for leader in $(jobs -p) ${CHILDREN[@]+"${CHILDREN[@]}"} ${LEADERS[@]+"${LEADERS[@]}"}; do
        kill "-$1" -- "-$leader" 2>/dev/null && echo "$leader" || true
    done
}

# Takes in the next message; fails when there is none yet. Never waits: bash 5.2 can crash in `read -t`.
hear() {
    local kind rank number
    read -r -u "$HEARD" kind rank number || return 1
    if [[ "$kind" == started ]]; then
        ((NNODES == 1)) || LEADERS+=("$number")
    else
        STATUS[$rank]=$number
        ((number == 0)) || FAILED+=("$rank")
    fi
}

# Asks every process group to end, and makes those that have not after STOP_SECONDS.
stop_all() {
    local signal deadline
    for signal in TERM KILL; do
        while hear; do :; done # of ranks that torchrun has started
        signal_all "$signal" >/dev/null
        deadline=$((SECONDS + STOP_SECONDS))
        while ((SECONDS <= deadline)); do
            [[ -n "$(signal_all 0)" ]] || return 0
            sleep 0.1
        done
    done
}

leave() {
    trap '' HUP INT TERM
    exec 2>/dev/null # bash has a line for each process that is killed
    stop_all
    rm -f -- "$MESSAGES" "$MESSAGES.sh"
}

# Ranks write "started RANK PROCESS" and "ended RANK STATUS" to it, in the order in which it happens.
MESSAGES=$(mktemp)
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
exec {HEARD}<"$MESSAGES"

fail() {
    local who=$1 status=$2 log=$3 how="failed with exit code $2"
    if ((status > 128 && status < 193)); then
        how="was killed by SIG$(kill -l $((status - 128))) (exit code $status)"
    fi
    echo "$who $how; the end of $log:" >&2
    tail -n 40 -- "$log" >&2 || true
    exit "$status"
}

set -m # each of these leads a process group, so that stopping it stops its data loaders too
if ((NNODES == 1)); then
    export WORLD_SIZE=$NPUS LOCAL_WORLD_SIZE=$NPUS
    for ((rank = 0; rank < NPUS; rank++)); do
        export RANK=$rank LOCAL_RANK=$rank
        run_rank 2>/dev/null &
        CHILDREN+=("$!")
    done
else
    # As a file: torchrun takes $ in arguments for variables of its own.
    declare -f run_rank >"$MESSAGES.sh"
    declare -p COMMAND LOG_DIR MESSAGES SHARE CORES >>"$MESSAGES.sh"
    echo run_rank >>"$MESSAGES.sh"
    torchrun --nnodes "$NNODES" --node-rank "$NODE_RANK" --nproc-per-node "$NPUS" \
        --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" --no-python bash "$MESSAGES.sh" \
        >"$LOG_DIR/torchrun_$NODE_RANK.log" 2>&1 </dev/null &
    CHILDREN+=("$!")
fi
set +m
echo "Started $NPUS ranks of:$(printf ' %q' "${COMMAND[@]}") (logs: $LOG_DIR/rank_*.log)"

ended_children() {
    local child
    for child in "${!CHILDREN[@]}"; do
        kill -0 "${CHILDREN[$child]}" 2>/dev/null || echo "$child"
    done
}

# One that ended without a word was killed together with its shell, or is torchrun, which has words of its own.
fail_silent() {
    local child=$1 status=0
    wait "${CHILDREN[$child]}" || status=$?
    if ((NNODES > 1)); then
        fail torchrun "$((status > 0 ? status : 1))" "$LOG_DIR/torchrun_$NODE_RANK.log"
    fi
    fail "Rank $child" "$((status > 0 ? status : 1))" "$LOG_DIR/rank_$child.log"
}

take_in() {
    ENDED=$(ended_children) # before the messages are read: what these have said is among them
    while hear; do :; done
}

fail_killed() {
    local child
    for child in $ENDED; do
        if ((NNODES > 1)); then
            ((${#STATUS[@]} == NPUS)) || fail_silent "$child"
        else
            [[ -n "${STATUS[$child]:-}" ]] || fail_silent "$child"
        fi
    done
}

# The first rank that failed on its own account, as far as the end of its log says, and not because it lost another.
first_failed() {
    local rank
    for rank in "${FAILED[@]}"; do
        tail -n 40 -- "$LOG_DIR/rank_$rank.log" | grep -q -e "closed its connections" -e "losed by peer" \
            -e "reset by peer" || { echo "$rank" && return; }
    done
}

# A rank that lost another one may end before that one has: its connections are closed first.
fail_first() {
    local first deadline=$((SECONDS + STOP_SECONDS))
    first=$(first_failed)
    while [[ -z "$first" ]] && ((SECONDS <= deadline && ${#STATUS[@]} < NPUS)); do
        sleep 0.2
        take_in
        first=$(first_failed)
        [[ -n "$first" ]] || fail_killed
    done
    fail "Rank ${first:=${FAILED[0]}}" "${STATUS[$first]}" "$LOG_DIR/rank_$first.log"
}

while ((${#STATUS[@]} < NPUS)); do
    sleep 0.2 &
    wait "$!" || true # bash may lose a signal that comes while it runs a command
    take_in
    ((${#FAILED[@]} == 0)) || fail_first
    fail_killed
done
if ((NNODES > 1)); then # it waits for the other machines
    status=0
    wait "${CHILDREN[0]}" || status=$?
    ((status == 0)) || fail torchrun "$status" "$LOG_DIR/torchrun_$NODE_RANK.log"
fi
trap - EXIT
rm -f -- "$MESSAGES" "$MESSAGES.sh"
echo "All $NPUS ranks finished."
