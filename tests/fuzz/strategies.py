"""Hypothesis' strategies for cases: simple ones first, so that a violation shrinks to a small one."""

from dataclasses import replace
from typing import Any

from fuzz.cases import Case
from fuzz.faces import FACES, FaceCase
from fuzz.goals import Call, Wanted
from fuzz.inside import ON_NETWORKS, ON_TREES
from fuzz.models import FAMILIES, LABELS, SHAPES, Model
from fuzz.tables import CATEGORIES, FRACTIONS, OBJECTS, WHOLE, Column, Table
from hypothesis import strategies as st

NUMBER_ARRAYS = (
    "float64",
    "float32",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
ARRAYS = (*NUMBER_ARRAYS, "bool", "object", "object", "text")
SLOW = ("lore", "deepfool", "grace", "feat-tweak", "focus", "mace", "dice-random", "dice-genetic", "dice-kdtree")
NEEDS_SCORES = ("greedy", "move-table", "surrogate-search", "dice-random", "dice-genetic", "dice-kdtree")
SHARES = st.sampled_from([(0.0, 1.0), (0.25, 0.75), (-0.5, 1.5), (0.1, 0.1001), (0.3, 2.0), (-1.0, 0.6)])
HOST_DTYPES = {"carla": ("float64", "int64"), "dice": ("float64", "int64", "float32", "int32", "object", "str", "bool")}
SEEDS = st.integers(0, 10**6)


@st.composite
def columns(draw: Any, dtypes: tuple[str, ...]) -> Column:
    """A column of one of the dtypes; without a rule three times of four, so that there is something to change."""
    dtype = draw(st.sampled_from(dtypes))
    column = Column(dtype)
    rule = draw(st.sampled_from(["free"] * 6 + ["increase", "decrease", "immutable"]))
    bounds = draw(st.none() | st.none() | SHARES)
    if not column.is_number:
        return Column(dtype, draw(st.integers(2, 6)), rule=rule, bounds=bounds)
    step = draw(st.none() | st.none() | st.sampled_from([0.1, 0.25, 1.0, 1 / 3, 0.037, 20.0]))
    if column.is_whole and draw(st.integers(0, 9)) == 9:
        return Column(dtype, 1, rule="free", bounds=bounds, categorical=True)
    if column.is_whole:
        size = draw(st.integers(1, 4) | st.integers(1, 4) | st.integers(0, 18))
        return Column(dtype, size, draw(st.sampled_from([0.0, 0.0, 1.0, -5.0, 9.0])), None, rule, bounds, step)
    size = draw(st.integers(0, 3) | st.integers(-13, 12))
    if dtype == "float16":
        size = max(min(size, 3), -3)
    digits = draw(st.none() | st.integers(0, 7))
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, -10.0, 1000.0]))
    return Column(dtype, size, offset, digits, rule, bounds, step, draw(st.booleans()))


@st.composite
def tables(draw: Any, numbers: bool = False, dtypes: tuple[str, ...] = ()) -> Table:
    """A frame of mixed columns, or an array; of numbers alone for methods that need them; a frame of given dtypes."""
    container = "frame" if dtypes else draw(st.sampled_from(("frame",) * 8 + (NUMBER_ARRAYS if numbers else ARRAYS)))
    if container == "frame" and not dtypes:
        dtypes = WHOLE + FRACTIONS if numbers else FRACTIONS + WHOLE + CATEGORIES + CATEGORIES
    elif container == "object":
        dtypes = OBJECTS
    elif container != "frame":
        dtypes = {"text": ("object",), "bool": ("bool",)}.get(container, (container,))
    made = draw(st.lists(columns(dtypes), min_size=1, max_size=3) | st.lists(columns(dtypes), min_size=3, max_size=6))
    rows = draw(st.integers(2, 60) | st.just(40))
    return Table(tuple(made), container, rows, draw(st.sampled_from(["range", "text", "twice"])), draw(SEEDS))


@st.composite
def models(draw: Any) -> Model:
    return Model(
        draw(st.sampled_from(FAMILIES)),
        draw(st.sampled_from(SHAPES)),
        draw(st.integers(2, 5) | st.just(2) | st.integers(1, 5)),
        draw(st.sampled_from(LABELS)),
        draw(st.sampled_from(["first", "last"])),
        draw(st.booleans()),
        draw(SEEDS),
    )


@st.composite
def goals(draw: Any, model: Model, numbers_wanted: bool) -> Wanted:
    if numbers_wanted:
        kind = draw(st.sampled_from(["shift", "between"]))
        share, width = draw(st.sampled_from([0.5, 0.1, 0.9, 1.2])), draw(st.sampled_from([0.2, 0.05, 0.6]))
        return Wanted(kind, 0, share, width)
    least = None
    if model.family in ("probabilities", "function of probabilities"):
        least = draw(st.none() | st.none() | st.sampled_from([0.0, 0.4, 0.5, 0.8, 1.0]))
    kind = draw(st.sampled_from(["flip", "flip", "to", "to each"]))
    return Wanted(kind, draw(st.integers(0, 4)), min_probability=least)


@st.composite
def cases(draw: Any, methods: tuple[str, ...], queries: int, looks_inside: tuple[str, ...] = ()) -> Case:
    """A case of one of the methods, with up to so many queries."""
    method = draw(st.sampled_from(methods))
    table, model = draw(tables(numbers=method in looks_inside)), draw(models())
    if method in looks_inside:
        model = replace(model, family="probabilities", classes=max(model.classes, 2))
    elif method in NEEDS_SCORES and model.family in ("labels", "function of labels") and draw(st.integers(0, 9)):
        model = replace(model, family="decision")  # else it is refused, which is to be seen now and then
    wanted = draw(goals(model, model.is_regressor))
    width = len(table.columns)
    positions = st.lists(st.integers(0, width - 1), min_size=1, max_size=width, unique=True).map(tuple)
    bounds = st.tuples(st.integers(0, width - 1), SHARES).map(lambda pair: (pair[0], *pair[1]))
    call = Call(
        draw(st.just(queries) | st.integers(1, queries) | st.integers(0 if method not in looks_inside else 1, 3)),
        draw(st.integers(1, 4)),
        draw(st.none() | st.none() | positions),
        draw(st.none() | st.none() | bounds),
    )
    return Case(
        table,
        model,
        wanted,
        call,
        method,
        draw(st.sampled_from(["search", "refined", "policy"])) if method.startswith("relax") else None,
        draw(st.sampled_from(["auto", "model", "signed"])) if method.startswith("relax") else "auto",
        draw(st.none() | st.integers(1, 4)),
        draw(st.integers(0, 3)),
        draw(st.sampled_from(["", "", "", "again", "refit", "threads", "json", "twin"])),
        draw(st.sampled_from([False] * 7 + [True])),
    )


@st.composite
def face_cases(draw: Any) -> FaceCase:
    """A case of a quick method behind one of the faces, or of ReLAX now and then, as the face's host would have it."""
    face = draw(st.sampled_from(FACES))
    case = draw(cases(("greedy", "nearest-ct", "greedy", "nearest-ct", "relax-global"), 40))
    if face in ("carla", "dice"):
        table = replace(draw(tables(dtypes=HOST_DTYPES[face])), index="range")
        model = replace(case.model, family="probabilities", labels="int", classes=max(case.model.classes, 2))
        call = Call(draw(st.integers(1, 12)), case.call.n)
        case = replace(case, table=table, model=model, wanted=Wanted("to", case.wanted.choice), call=call)
    if face == "alibi":
        wanted = replace(case.wanted, min_probability=None)
        case = replace(case, call=Call(case.call.queries), wanted=wanted)
    return FaceCase(face, replace(case, extra=""))


LOOKS_INSIDE = (*ON_TREES, *ON_NETWORKS)
# By group the methods, with those that are quickest a row most often, and the most queries of a case: the more, the
# less a row costs.
GROUPS = {
    "cheap": (("greedy", "nearest-ct", "move-table", "nearest-ct", "move-table", "surrogate-search"), 1500),
    "slow": (SLOW, 100),
    "relax": (("relax-global", "relax-global", "relax-global", "relax-local"), 1000),
}


def group_cases(group: str, fewer: int = 1) -> Any:
    """Cases of a group; `fewer` divides the number of queries."""
    methods, queries = GROUPS[group]
    return cases(methods, queries // fewer, LOOKS_INSIDE)
