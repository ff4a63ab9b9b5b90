"""Pickles of fitted explainers: no memory shared with torch, the same hash before and after use, and across a fork."""

import gc
import multiprocessing
import os
import pickle
import threading
import types
from multiprocessing.reduction import ForkingPickler

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from reference import tiny
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from relax_plugin import ReLAX, ReLAXConfig, make_explainer
from relax_plugin.cached import cached_property

ROWS = np.random.default_rng(0).normal(size=(200, 4)).round(2)
QUERIES = ROWS[:12]
LABELS = tiny.two_class_labels(ROWS)
FOREST = RandomForestClassifier(10, max_depth=4, random_state=0).fit(ROWS, LABELS)
MLP = MLPClassifier((6,), max_iter=400, random_state=0).fit(ROWS, LABELS)
MODULE = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
TINY = ReLAXConfig(steps=20, episodes=16, hidden=8, start_pool=64, query_budget=200)
FITTED_ON = {
    "relax-global": (FOREST, {"config": TINY}),
    "relax-global, refined": (FOREST, {"config": TINY, "effort": "refined"}),
    "relax-global, policy": (FOREST, {"config": TINY, "effort": "policy"}),
    "relax-local": (FOREST, {"config": TINY}),
    "surrogate-search": (FOREST, {}),
    "cfrl": (FOREST, {"steps": 20}),
    "fastar": (FOREST, {"steps": 20}),
    "focus": (FOREST, {"iterations": 20}),
    "deepfool": (MLP, {}),
    "grace": (MLP, {}),
    "wachter": (MLP, {}),
    "greedy": (FOREST, {}),
    "nearest-ct": (FOREST, {}),
    "face": (FOREST, {}),
    "deepfool, torch": (MODULE, {}),
    "wachter, torch": (MODULE, {}),
}
OWN_WEIGHTS = [name for name in FITTED_ON if not name.endswith("torch")]  # torch pickles a module as it likes


def fitted(name):
    model, options = FITTED_ON[name]
    return make_explainer(name.partition(",")[0], model, **options).fit(ROWS)


def parts(explainer):
    """All objects that an explainer holds, however deep, the bases of arrays among them."""
    seen, left = {}, [explainer]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
            continue
        seen[id(one)] = one
        left += gc.get_referents(one)
        if isinstance(one, np.ndarray) and one.base is not None:
            left.append(one.base)
        if isinstance(one, np.ndarray) and one.dtype == object:
            left += one.ravel().tolist()
    return list(seen.values())


def same(one, other):
    return np.array_equal(one.values, other.values, equal_nan=True) and (one.rows_queried == other.rows_queried).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED_ON)
def test_no_array_of_a_fitted_explainer_lies_in_the_memory_of_a_tensor(name):
    held = parts(fitted(name))
    tensors = [one for one in held if isinstance(one, torch.Tensor) and one.device.type == "cpu"]
    arrays = [one for one in held if isinstance(one, np.ndarray) and one.nbytes]
    assert len(arrays) > 3
    assert not [one for one in arrays if isinstance(one.base, torch.Tensor)]
    storages = [(one.untyped_storage().data_ptr(), one.untyped_storage().nbytes()) for one in tensors]
    for array in arrays:
        low, high = np.lib.array_utils.byte_bounds(array)
        assert not [at for at, size in storages if at < high and low < at + size]


@pytest.mark.slow
def test_no_array_of_a_loaded_explainer_lies_in_the_memory_of_a_tensor(tmp_path):
    fitted("relax-global").save(tmp_path / "agent")
    held = parts(ReLAX.load(tmp_path / "agent", model=FOREST))
    assert not [one for one in held if isinstance(one, np.ndarray) and isinstance(one.base, torch.Tensor)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED_ON)
def test_pickling_for_another_process_does_not_change_the_counterfactuals(name):
    explainer = fitted(name)
    before = explainer.explain(QUERIES)
    copied = pickle.loads(ForkingPickler.dumps(explainer))
    gc.collect()
    assert same(explainer.explain(QUERIES), before)
    assert same(copied.explain(QUERIES), before)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_parent_and_children_of_a_pool_answer_alike(start):
    explainer = fitted("relax-global")
    before = explainer.explain(QUERIES)
    with multiprocessing.get_context(start).Pool(2) as pool:
        in_children = pool.map(explainer.explain, [QUERIES, QUERIES])
    assert all(same(one, before) for one in in_children)
    assert same(explainer.explain(QUERIES), before)


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN_WEIGHTS)
def test_the_hash_of_an_explainer_does_not_change_by_use_or_by_a_pickle(name):
    explainer = fitted(name)
    before = joblib.hash(explainer)
    assert joblib.hash(explainer) == before
    explainer.explain(QUERIES)
    assert joblib.hash(explainer) == before
    copied = pickle.loads(pickle.dumps(explainer))
    assert joblib.hash(copied) == before
    copied.explain(QUERIES)
    assert joblib.hash(copied) == before


def test_the_hash_of_an_explainer_does_not_depend_on_the_queries_it_saw():
    table = pd.DataFrame(ROWS, columns=list("abcd"))
    explainer = make_explainer("greedy", FOREST).fit(table)
    before = joblib.hash(explainer)
    other_names = pd.DataFrame(QUERIES, columns=np.array(list("abcd"), dtype=object))
    for queries in (QUERIES, other_names, table[list("dcba")][:5], table[:5].to_dict("records")):
        explainer.explain(queries)
        assert joblib.hash(explainer) == before
    explainer.explain(QUERIES, plausible="prefer")  # which fits a detector
    assert joblib.hash(explainer) == before
    queries = table[:5]
    explainer.explain(queries)
    copied = pickle.loads(pickle.dumps(explainer))
    assert joblib.hash((copied, queries)) == joblib.hash((explainer, queries))  # as joblib.Memory asks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relax-global", "surrogate-search", "greedy", "deepfool", "fastar"])
def test_two_fits_with_the_same_seed_differ_in_their_times_alone(name):
    one, other = fitted(name), fitted(name)
    for explainer in (one, other):
        explainer.fit_seconds_ = 0.0
        for row in getattr(explainer, "history_", types.SimpleNamespace(rows=[])).rows:
            row["seconds"] = 0.0
    assert joblib.hash(one) == joblib.hash(other)


@pytest.mark.slow
def test_joblib_memory_calls_a_cached_function_once(tmp_path):
    calls, explainer = [], fitted("relax-global")

    def explained(explainer, queries):
        calls.append(len(queries))
        return explainer.explain(queries).values

    cached = joblib.Memory(tmp_path, verbose=0).cache(explained)
    first = cached(explainer, QUERIES)
    assert np.array_equal(cached(explainer, QUERIES), first, equal_nan=True)
    assert np.array_equal(cached(pickle.loads(pickle.dumps(explainer)), QUERIES), first, equal_nan=True)
    assert calls == [12]


class Slow:
    """A property that takes as long as the test says."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()

    @cached_property
    def value(self):
        self.begun.set()
        assert self.may_end.wait(30)
        return 42


def in_forked_child(check):
    """What `check` says in a forked child: True or False; None if the child hangs."""
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(0 if check() else 1))
    child.start()
    child.join(20)
    if child.exitcode is None:
        child.kill()
        child.join()
        return None
    return child.exitcode == 0


def held_elsewhere(lock, check):
    """What `check` says in a child that is forked while another thread holds the lock."""
    has_it, may_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            has_it.set()
            may_go.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert has_it.wait(30)
    try:
        return in_forked_child(check)
    finally:
        may_go.set()
        holder.join()


def locks():
    from relax_plugin import blackbox, books, readers
    from relax_plugin.agent import layers
    from relax_plugin.baselines import common, dice
    from relax_plugin.distributed import places

    return {
        "books": books.ENTERING,
        "blackbox": blackbox.ONE_AT_A_TIME,
        "readers": readers.SWITCHING,
        "layers": layers.CHANGING,
        "shipped": places._unpacking,
        "networks": common.COUNTING,
        "dice": dice.ONE_AT_A_TIME,
    }


@pytest.mark.parametrize("name", ["books", "blackbox", "readers", "layers", "shipped", "networks", "dice"])
def test_a_lock_that_another_thread_holds_is_free_in_a_forked_child(name):
    lock = locks()[name]
    assert held_elsewhere(lock, lambda: lock.acquire(timeout=5) and (lock.release() or True)) is True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["books", "layers"])
def test_a_child_that_is_forked_while_another_thread_explains_explains_too(name):
    explainer = fitted("relax-global")
    before = explainer.explain(QUERIES)
    assert held_elsewhere(locks()[name], lambda: same(explainer.explain(QUERIES), before)) is True


def test_a_lock_of_the_thread_that_forks_stays_its_own():
    lock = locks()["books"]
    with lock:
        assert in_forked_child(lambda: lock.release() is None and lock.acquire(timeout=5)) is True


def test_a_forked_child_has_the_threads_of_torch_back_that_another_thread_had_taken():
    from relax_plugin.agent.layers import one_thread

    class Taken:
        def __enter__(self):
            self.context = one_thread()
            self.context.__enter__()

        def __exit__(self, *error):
            self.context.__exit__(*error)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:

        def check():
            own = torch.get_num_threads() == 2
            with one_thread():
                own = own and torch.get_num_threads() == 1
            return own and torch.get_num_threads() == 2

        assert held_elsewhere(Taken(), check) is True
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_property_that_another_thread_computes_does_not_block_a_forked_child():
    slow = Slow()
    slow.may_end.clear()
    computing = threading.Thread(target=lambda: slow.value)
    computing.start()
    assert slow.begun.wait(30)
    try:
        assert in_forked_child(lambda: Slow().value == 42) is True
    finally:
        slow.may_end.set()
        computing.join()
    assert slow.value == 42


def test_a_pickle_has_no_cached_value():
    space = fitted("greedy").space_
    assert space.scale is space.scale
    copied = pickle.loads(pickle.dumps(space))
    assert "scale" not in vars(copied)
    assert np.array_equal(copied.scale, space.scale)
