import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu2npu.project import executors
from gpu2npu.project.check.repositories import check_repositories
from gpu2npu.project.errors import UsageError
from gpu2npu.project.executors import open_executor
from gpu2npu.project.pool import Pool
from gpu2npu.project.settings import Settings


def half(number: int) -> int:
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


@pytest.mark.parametrize("address", ["dask", "dask://", "dask://host", "dask://host:x", "slurm://host:1", "", "ray:1"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="give dask://HOST:PORT or ray://HOST:PORT"), open_executor(address):
        pass


@pytest.mark.parametrize(("scheme", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_package_that_is_not_installed_is_named(scheme: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=f"needs the package '{package}'"), open_executor(f"{scheme}://localhost:1"):
        pass


def test_what_raises_stops_nothing() -> None:
    with ThreadPoolExecutor(2) as executor:
        found = dict(Pool(executor=executor).answers(half, [1, 2, 3, 6]))
    assert (found[2], found[6]) == (1, 3)
    assert str(found[1]) == "1 is odd"


def test_an_executor_that_is_left_early_can_be_used_again() -> None:
    with ThreadPoolExecutor(1) as executor:
        answers = Pool(executor=executor).answers(abs, [-1, -2, -3])
        assert next(answers)[1] in (1, 2, 3)
        answers.close()
        assert executor.submit(abs, -4).result() == 4


def test_a_process_that_dies_takes_only_its_own_task_along(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    code = f"""
        import sys
        sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
        from gpu2npu.project.pool import Pool
        from test_executors import half

        if __name__ == "__main__":
            for number, answer in sorted(Pool(2).answers(half, [2, 4, 6, 8]), key=lambda pair: pair[0]):
                print(number, answer)
        """
    program.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=600, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["2 1", "4 the process ended unexpectedly", "6 3", "8 4"]


def test_repositories_on_a_dask_cluster(tmp_path: Path) -> None:
    """A scheduler and a worker on this machine, reached by TCP."""
    from distributed import LocalCluster

    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "main.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    paths = (str(tmp_path / "one"), str(tmp_path / "nowhere"))
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
        ) as cluster,
        open_executor(cluster.scheduler_address.replace("tcp://", "dask://")) as executor,
    ):
        done = {each.name: each for each in check_repositories(paths, Settings("2.7.1"), executor=executor)}
    assert done["one"].error is None and done["one"].changes == 2
    assert "does not exist" in str(done["nowhere"].error)


def test_a_dask_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_TIMEOUT", 1)
    with pytest.raises(UsageError, match="No Dask scheduler answers"), open_executor("dask://127.0.0.1:9"):
        pass


class StandInForRay:
    """The calls that are made of the package ray, done by threads; what a task raises is wrapped as Ray wraps it."""

    def __init__(self, refusal: str = "", unsendable: int | None = None) -> None:
        self.refusal, self.unsendable = refusal, unsendable
        self.threads = ThreadPoolExecutor(2)
        self.retries: list[int] = []
        self.ended = False

    def init(self, address: str, **options: object) -> None:
        if self.refusal:
            raise RuntimeError(self.refusal)

    def remote(self, max_retries: int) -> Callable[[Callable[..., int]], SimpleNamespace]:
        self.retries.append(max_retries)
        return lambda task: SimpleNamespace(remote=lambda *arguments: self.sent(task, *arguments))

    def sent(self, task: Callable[..., int], *arguments: object) -> SimpleNamespace:
        if self.unsendable is not None and self.unsendable in arguments:
            raise ModuleNotFoundError("No module named 'gpu2npu'")
        future = self.threads.submit(self.wrapped, task, *arguments)
        return SimpleNamespace(future=lambda: future)

    def wrapped(self, task: Callable[..., int], *arguments: object) -> int:
        try:
            return task(*arguments)
        except ValueError as error:
            wrapper = RuntimeError("Traceback (most recent call last): ...")
            wrapper.cause = error  # type: ignore[attr-defined]
            raise wrapper from error

    def shutdown(self) -> None:
        self.threads.shutdown()
        self.ended = True


def test_a_ray_cluster_runs_each_task_once_and_tells_what_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = StandInForRay(unsendable=8)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with open_executor("ray://localhost:10001") as executor:
        found = dict(Pool(executor=executor).answers(half, [1, 2, 6, 8]))
    assert (found[2], found[6]) == (1, 3)
    assert repr(found[1]) == "ValueError('1 is odd')"
    assert repr(found[8]) == "ModuleNotFoundError(\"No module named 'gpu2npu'\")"
    assert ray.ended and set(ray.retries) == {0}


def test_a_ray_cluster_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "Initialization failure from server:\nTraceback (most recent call last):\nRuntimeError: it failed.\n"
    monkeypatch.setitem(sys.modules, "ray", StandInForRay(refusal))
    with pytest.raises(UsageError) as caught, open_executor("ray://localhost:10001"):
        pass
    assert str(caught.value) == "No Ray cluster answers at ray://localhost:10001: RuntimeError: it failed."
