"""Jobs by several processes of one machine. Each item of work has a method `run`; a process does one after the other."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import torch


def side_by_side(work: Sequence, jobs: int) -> list:
    """What each item's `run` gives, in order, by `jobs` processes that share the CPU's threads.

    An interruption reaches every process, so that `fit` saves, and no further item is begun.
    Raises: what an item raised; ChildProcessError when a process was killed.
    """
    threads = max(1, torch.get_num_threads() // jobs)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin, (threads, os.getpid())) as pool:
        waiting, running, found = list(enumerate(work)), {}, {}
        try:
            while waiting or running:
                while waiting and len(running) < jobs:  # the pool would hold more ready, and begin one after an interruption
                    k, item = waiting.pop(0)
                    running[pool.submit(_work, item)] = k
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    found[running.pop(future)] = future.result()
        except BaseException as problem:
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)  # when all have saved and ended
            if isinstance(problem, BrokenProcessPool):
                raise ChildProcessError("one of the processes was killed, as by a machine that runs out of memory: "
                                        "fewer --jobs need less") from problem
            raise
    return [found[k] for k in range(len(work))]


def _begin(threads: int, parent: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _work(item):
    """What its `run` gives. An interrupted process ends here: back in the pool it would begin the item that lies ready there, or
    wait for a lock that another one died with."""
    try:
        return item.run()
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(130)


def _end_with(parent: int) -> None:
    """A killed parent tells nobody. Left alone, a process would train beside the one that goes on from its checkpoint."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # for a step and its save
    os._exit(1)
