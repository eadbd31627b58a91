"""One function for many arguments, in several processes on one machine.

joblib kills its processes at an interruption; these processes save their training first.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import torch

from geolab import distributed


def side_by_side(function: Callable, items: Sequence[tuple], jobs: int,
                 names: Sequence[str] = ()) -> list:
    """Return function(*item) for each item, in order. `jobs` processes share the CPU's threads.

    One job starts no process. An interruption reaches every process, so that `fit` saves. No
    further item starts after it.

    Arguments:
        function, items: they must be picklable if there is more than one job.
        names: each is printed when its item starts.
    Raises: the function's error; ChildProcessError if a process was killed.
    """
    names = names or list(map(str, range(1, len(items) + 1)))
    if jobs == 1:
        return [function(*item) for item in _announced(items, names)]
    threads = max(1, torch.get_num_threads() // jobs)
    announced = enumerate(_announced(items, names))
    running: dict[Future, int] = {}
    found: dict[int, object] = {}
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin,
                             (threads, os.getpid())) as pool:
        try:
            while len(found) < len(items):
                # one at a time: after an interruption the pool would start a queued item
                while len(running) < jobs and (following := next(announced, None)):
                    k, item = following
                    running[pool.submit(_work, function, item)] = k
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    found[running.pop(future)] = future.result()
        except BaseException as problem:
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)  # returns after all processes saved and ended
            if isinstance(problem, BrokenProcessPool):
                raise ChildProcessError(
                    "one of the processes was killed, as on a machine that runs out of memory: "
                    "fewer --jobs need less") from problem
            raise
    return [found[k] for k in range(len(items))]


def _announced(items: Sequence[tuple], names: Sequence[str]):
    """Yield the items, and print each name when its item is taken."""
    for k, (item, name) in enumerate(zip(items, names, strict=True), start=1):
        if distributed.rank() == 0:
            print(f"[{k}/{len(items)}] {name}", file=sys.stderr, flush=True)
        yield item


def _begin(threads: int, parent: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _work(function: Callable, item: tuple):
    """Return function(*item). An interrupted process ends here.

    If it returned to the pool, it would start the next item of the queue, or wait for a lock that
    another process held when it ended.
    """
    try:
        return function(*item)
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(130)


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, since a killed parent sends no signal.

    Otherwise this process would train beside the one that goes on from its checkpoint.
    """
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # enough for a step and its save
    os._exit(1)
