"""Run by test_ends.py: two ranks for each way to end, forked from one process that has imported everything.

Each ends as an interpreter does. Prints as JSON what the ranks wrote and their exit codes, by case. Argument: an empty
folder.
"""

import atexit
import gc
import json
import os
import signal
import sys
import threading
from pathlib import Path

import torch
import torch._dynamo  # DDP imports it: three seconds, here once and not in every rank
import torch.distributed as dist

from gpu2npu.emulator.device.dispatch import dispatch

LIMIT = 300  # seconds, then SIGALRM ends a rank that hangs; its group would have half an hour


def rank():
    return int(os.environ["RANK"])


def say(words):
    sys.stdout.write(f"rank {rank()} {words}\n")


def npu(size=100):
    return torch.ones(size, device=f"npu:{rank()}")


def drop(count=20):
    for _ in range(count):
        dist.all_reduce(npu(), async_op=True)
    dist.all_reduce(npu(), async_op=True).get_future().then(lambda future: future.value()[0] * 2)


def destroyed():
    drop()
    dist.all_reduce(ones := npu(), async_op=True)
    dist.destroy_process_group()
    say(f"got {int(ones.sum().item())}")
    drop_is_refused()


def drop_is_refused():
    try:
        dist.all_reduce(npu())
    except ValueError as error:
        say(f"is told {error}")


def left():
    drop()


def left_with_a_message_on_its_way():
    message = npu(2_000_000)
    if rank() == 0:
        dist.isend(message, 1)
        dist.irecv(npu(), 1)
    else:
        dist.recv(message.zero_(), 0)
        say(f"got {int(message.sum().item())}")


def raised():
    drop()
    if rank() == 1:
        raise KeyError("rank 1 gives up")
    dist.all_reduce(npu())


def exited():
    if rank() == 1:
        sys.exit(3)
    dist.all_reduce(npu())


def killed_under_ddp():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1).to(f"npu:{rank()}"))
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    model(torch.ones(2, 3, device=f"npu:{rank()}")).sum().backward()


def terminated_with_a_handler():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    dist.all_reduce(npu())
    os.kill(os.getpid(), signal.SIGTERM)


def forked_a_child():
    child = os.fork()
    try:
        dist.barrier()
    except RuntimeError as error:
        say(f"child: {error}")
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def worked_in_a_thread_and_at_exit():
    def work():
        for _ in range(5):
            dist.all_reduce(npu())
        say("worked")

    threading.Thread(target=work).start()
    atexit.register(lambda: (dist.all_reduce(npu()), say("worked at exit")))


def waited_in_a_callback():
    def again(future):
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()

    say(f"got {int(dist.all_reduce(npu(), async_op=True).get_future().then(again).wait()[0].sum().item())}")


def raise_everywhere():
    raise KeyError(f"rank {rank()} gives up")


def raise_with_collectives_in_flight():
    drop()
    raise_everywhere()


def one_raises_before_a_collective_that_is_awaited():
    if rank() == 1:
        raise_everywhere()
    dist.all_reduce(npu())


def one_raises_before_a_collective_in_flight():
    if rank() == 1:
        raise_everywhere()
    dist.barrier(async_op=True)
    raise_everywhere()


def receives_without_senders():
    dist.irecv(npu(), 1 - rank())
    raise_everywhere()


def sends_without_receivers():
    dist.isend(npu(), 1 - rank())
    raise_everywhere()


def a_message_that_does_not_fit():
    if rank() == 0:
        dist.isend(npu(3), 1)
        raise_everywhere()
    dist.recv(npu(4), 0)


def a_barrier_and_a_send_that_wait_for_each_other():
    if rank() == 0:
        dist.barrier(async_op=True)
    else:
        dist.isend(npu(), 0)
    raise_everywhere()


def a_collective_waits_for_one_that_waits_to_send():
    if rank() == 0:
        dist.all_reduce(npu())
    dist.isend(npu(), 0)
    raise_everywhere()


def a_receive_waits_for_one_that_waits_in_a_collective():
    if rank() == 0:
        dist.recv(npu(), 1)
    dist.all_reduce(npu(), async_op=True)
    raise_everywhere()


def a_thread_waits_in_a_collective():
    if rank() == 0:
        work = dist.barrier(async_op=True)
        threading.Thread(target=attempt, args=(work.wait, "barrier")).start()
    raise_everywhere()


RAISING = (
    raise_everywhere,
    raise_with_collectives_in_flight,
    one_raises_before_a_collective_that_is_awaited,
    one_raises_before_a_collective_in_flight,
    receives_without_senders,
    sends_without_receivers,
    a_message_that_does_not_fit,
    a_barrier_and_a_send_that_wait_for_each_other,
    a_collective_waits_for_one_that_waits_to_send,
    a_receive_waits_for_one_that_waits_in_a_collective,
    a_thread_waits_in_a_collective,
)


def attempt(call, name=""):
    """As a program does that catches errors: what is raised is over before the group is destroyed."""
    try:
        call()
    except Exception as error:
        say(f"{name or call.__name__}: {error}")


def destroyed_after_errors():
    folder = Path(os.environ["FOLDER"])
    for call in RAISING:
        dist.destroy_process_group()
        join(folder / call.__name__)
        attempt(call)
    dist.destroy_process_group()


def left_waiting_for_each_other():
    a_barrier_and_a_send_that_wait_for_each_other()


CASES = (
    destroyed,
    left,
    left_with_a_message_on_its_way,
    raised,
    exited,
    killed_under_ddp,
    terminated_with_a_handler,
    forked_a_child,
    worked_in_a_thread_and_at_exit,
    waited_in_a_callback,
    destroyed_after_errors,
    left_waiting_for_each_other,
)


def join(store):
    dist.init_process_group("hccl", init_method=f"file://{store}", rank=rank(), world_size=2)
    dist.all_reduce(npu())


def run_rank(number, case, folder):
    """Run a case of one rank in the new process, before its interpreter ends."""
    signal.alarm(LIMIT)
    for stream in (1, 2):
        os.dup2(os.open(folder / f"{case.__name__}.{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    os.environ.update(RANK=str(number), FOLDER=str(folder))
    atexit.register(say, "left")
    torch.npu.set_device(number)
    join(folder / f"{case.__name__}.store")
    case()


def main(folder):
    dispatch.load_kernels()
    gc.freeze()  # else each rank touches, and so copies, every object when it ends
    processes = {}
    for case in CASES:  # all at once: most of them wait for each other
        for number in range(2):
            process = os.fork()
            if process == 0:
                run_rank(number, case, folder)
                return
            processes[case.__name__, number] = process
    stories = {case.__name__: [] for case in CASES}
    for (case, number), process in processes.items():
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        stories[case].append((code, (folder / f"{case}.{number}").read_text()))
    sys.stdout.write(json.dumps(stories) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
