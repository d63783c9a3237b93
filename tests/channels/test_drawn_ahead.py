"""Numbers drawn ahead: each is handed out once, whatever becomes of the process or the object."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

from recondite.channels.per_step import DrawnAhead


def taken(source, times=3, count=1000):
    return [source.take(count).copy() for _ in range(times)]


def shared(one, other):
    return len(np.intersect1d(np.concatenate(one), np.concatenate(other)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_normal_with_the_scale(dtype):
    numbers = np.concatenate(taken(DrawnAhead(dtype, 2.5), 4, 20_001))
    assert numbers.dtype == dtype
    assert stats.kstest(numbers[:50_000] / 2.5, "norm").pvalue > 1e-4


def test_no_number_is_handed_out_twice():
    """Batches that grow and shrink: what is left of a larger one is never served."""
    source = DrawnAhead(np.float64)
    drawn = [source.take(count) for count in (100, 300, 50, 300, 300, 7)]
    assert [len(part) for part in drawn] == [100, 300, 50, 300, 300, 7]
    assert len(np.unique(np.concatenate(drawn))) == 1057


def test_what_is_ready_is_used():
    """The next batch is the one that the thread has drawn."""
    source = DrawnAhead(np.float64)
    source.take(10)
    ready = source._ready[0].numbers.result()
    assert np.array_equal(source.take(10), ready)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_a_copy_has_none_of_it(copied):
    source = DrawnAhead(np.float64)
    source.take(1000)
    twin = copied(source)
    assert shared(taken(source), taken(twin)) == 0


def test_threads_share_no_number():
    source = DrawnAhead(np.float64)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: source.take(50), range(2000), chunksize=1))
    assert len(np.unique(np.concatenate(parts))) == 100_000


def _in_child(source, queue):
    queue.put(taken(source))


def test_a_forked_process_draws_its_own():
    source = DrawnAhead(np.float64)
    source.take(1000)
    source._ready[0].numbers.result()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(source, queue))
    child.start()
    theirs = queue.get(timeout=60)
    child.join(60)
    assert shared(taken(source), theirs) == 0


def test_the_process_is_what_decides(monkeypatch):
    """The test above would also pass by luck; here the numbers of another process lie ready."""
    source = DrawnAhead(np.float64)
    source.take(5)
    ready = source._ready[0].numbers.result().copy()
    monkeypatch.setattr("recondite.channels.per_step.generation", lambda: (1, 1))
    assert shared([ready], [source.take(5)]) == 0


def test_forks_with_one_number_draw_their_own(monkeypatch):
    """In another namespace a child can have its parent's number: OpenSSL alone would repeat."""
    source = DrawnAhead(np.float64)
    source.take(1000)
    source._ready[0].numbers.result()
    number = os.getpid()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.getpid = lambda: number
        os.write(write, np.concatenate(taken(source)).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 1 << 16), dtype=np.float64)
    assert len(theirs) == 3000
    assert shared(taken(source), [theirs]) == 0


def test_a_thread_that_outlives_the_interpreter_goes_on():
    """Python takes no work for threads once it is ending; noise is then drawn where it is used."""
    program = (
        "import threading, time, numpy as np\n"
        "from recondite.channels.per_step import DrawnAhead\n"
        "source = DrawnAhead(np.float32)\n"
        "def work():\n"
        "    for _ in range(20):\n"
        "        source.take(100); time.sleep(0.01)\n"
        "    print('done')\n"
        "threading.Thread(target=work).start()\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (out.stdout, out.stderr) == ("done\n", "")


def test_much_is_not_held_ready(monkeypatch):
    monkeypatch.setattr("recondite.channels.per_step._MOST", 10)
    source = DrawnAhead(np.float64)
    source.take(11)
    assert not source._ready
    source = DrawnAhead(np.float64)
    source.take(10)
    assert isinstance(source._ready[0].numbers, Future)
