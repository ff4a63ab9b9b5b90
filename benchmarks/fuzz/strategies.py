"""Hypothesis' strategies for cases: simple ones first, so that a violation shrinks to a small one.

Only booleans are drawn. For all else hypothesis also tries constants that it reads in whatever modules are loaded, and
the cases of a seed would depend on the tests that ran before.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.faces import FACES, FaceCase
from benchmarks.fuzz.goals import Call, Wanted
from benchmarks.fuzz.inside import LOOKS_INSIDE
from benchmarks.fuzz.models import FAMILIES, LABELS, SHAPES, Model
from benchmarks.fuzz.real_cases import SHAPES as HANDED
from benchmarks.fuzz.real_cases import RealCall, RealCase
from benchmarks.fuzz.real_rules import KINDS, RealRule
from benchmarks.fuzz.real_tables import CARRIED as REAL_CARRIED
from benchmarks.fuzz.real_tables import LABELS as REAL_LABELS
from benchmarks.fuzz.real_tables import NUMBERS as REAL_NUMBERS
from benchmarks.fuzz.real_tables import RealColumn, RealTable
from benchmarks.fuzz.tables import CATEGORIES, FRACTIONS, OBJECTS, WHOLE, Column, Table

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
HOST_DTYPES = {"carla": ("float64", "int64"), "dice": ("float64", "int64", "float32", "int32", "object", "str", "bool")}
SLOW = ("lore", "deepfool", "grace", "feat-tweak", "focus", "mace", "dice-random", "dice-genetic", "dice-kdtree")
NEEDS_SCORES = ("greedy", "move-table", "surrogate-search", "dice-random", "dice-genetic", "dice-kdtree")
SHARES = ((0.0, 1.0), (0.25, 0.75), (-0.5, 1.5), (0.1, 0.1001), (0.3, 2.0), (-1.0, 0.6))
SEEDS = range(2**20)
RULES = ("free",) * 6 + ("increase", "decrease", "immutable")
# By group the methods, with those that are quickest a row most often, and the most queries of a case: the more, the
# less a row costs.
GROUPS = {
    "cheap": (("greedy", "nearest-ct", "move-table", "nearest-ct", "move-table", "surrogate-search"), 1500),
    "slow": (SLOW, 100),
    "trees": (("search",), 500),
    "relax": (("relax-global", "relax-global", "relax-global", "relax-local"), 1000),
}

Option = TypeVar("Option")


def pick(draw: Any, options: Sequence[Option]) -> Option:
    """One of the options, the first of which is the simplest."""
    bits = (len(options) - 1).bit_length()
    return options[sum(draw(st.booleans()) << bit for bit in range(bits)) % len(options)]


def seldom(draw: Any) -> bool:
    """True once in eight times."""
    return pick(draw, range(8)) == 7


def column(draw: Any, dtypes: Sequence[str]) -> Column:
    """A column of one of the dtypes; without a rule twice of three times, so that there is something to change."""
    made = Column(pick(draw, dtypes), rule=pick(draw, RULES), bounds=pick(draw, (None, None, None, *SHARES)))
    if not made.is_number:
        return replace(made, size=pick(draw, range(2, 7)))
    if made.is_whole and seldom(draw):
        return replace(made, size=1, rule="free", categorical=True)
    made = replace(made, step=pick(draw, (None,) * 10 + (0.1, 0.25, 1.0, 1 / 3, 0.037, 20.0)))
    if made.is_whole:
        size = pick(draw, (*range(1, 5), *range(1, 5), *range(19)))
        return replace(made, size=size, offset=pick(draw, (0.0, 0.0, 1.0, -5.0, 9.0)))
    size = pick(draw, (0, 1, 2, 3) * 6 + tuple(range(-13, 13)))
    return replace(
        made,
        size=max(min(size, 3), -3) if made.dtype == "float16" else size,
        offset=pick(draw, (0.0, 0.0, 1.0, -10.0, 1000.0)),
        digits=pick(draw, (None,) * 8 + tuple(range(8))),
        continuous=draw(st.booleans()),
    )


def table(draw: Any, numbers: bool = False, dtypes: Sequence[str] = ()) -> Table:
    """A frame of mixed columns, or an array; of numbers alone for methods that need them; a frame of given dtypes."""
    container = "frame"
    if not dtypes:
        container = pick(draw, ("frame",) * 8 + (NUMBER_ARRAYS if numbers else ARRAYS))
        if container == "frame":
            dtypes = WHOLE + FRACTIONS if numbers else FRACTIONS + WHOLE + CATEGORIES + CATEGORIES
        else:
            dtypes = {"object": OBJECTS, "text": ("object",), "bool": ("bool",)}.get(container, (container,))
    made = tuple(column(draw, dtypes) for _ in range(pick(draw, (1, 2, 3, 3, 4, 5, 6))))
    rows, index = pick(draw, (*range(2, 60), *(40,) * 58)), pick(draw, ("range", "text", "twice"))
    return Table(made, container, rows, index, pick(draw, SEEDS))


def model_of(draw: Any, method: str) -> Model:
    """A model that the method explains, or now and then one that it refuses."""
    classes = pick(draw, (2, 2, 3, 4, 5, 2, 3, 1))
    made = Model(
        pick(draw, FAMILIES),
        pick(draw, SHAPES),
        classes,
        pick(draw, LABELS),
        pick(draw, ("first", "last")),
        draw(st.booleans()),
        pick(draw, SEEDS),
    )
    if method in LOOKS_INSIDE:
        return replace(made, family="probabilities", classes=max(classes, 2))
    if method in NEEDS_SCORES and made.family in ("labels", "function of labels") and not seldom(draw):
        return replace(made, family="decision")
    return made


def goal_of(draw: Any, model: Model) -> Wanted:
    if model.is_regressor:
        kind, share = pick(draw, ("shift", "between", "between each")), pick(draw, (0.5, 0.1, 0.9, 1.2))
        way = pick(draw, ("either", "up", "down")) if kind == "shift" else "either"
        return Wanted(kind, 0, share, pick(draw, (0.2, 0.05, 0.6)), direction=way)
    least = None
    if model.family in ("probabilities", "function of probabilities"):
        least = pick(draw, (None,) * 10 + (0.0, 0.4, 0.5, 0.8, 1.0))
    return Wanted(pick(draw, ("flip", "flip", "to", "to each")), pick(draw, range(5)), min_probability=least)


def call_of(draw: Any, width: int, queries: int, least: int) -> Call:
    count = pick(draw, (queries, queries, pick(draw, range(1, queries + 1)), pick(draw, range(least, 4))))
    vary = bounds = None
    if pick(draw, range(3)) == 2:
        vary = tuple(j for j in range(width) if draw(st.booleans())) or (0,)
    if pick(draw, range(3)) == 2:
        bounds = (pick(draw, range(width)), *pick(draw, SHARES))
    return Call(count, pick(draw, (1, 2, 3, 4)), vary, bounds)


@st.composite
def cases(draw: Any, methods: tuple[str, ...], queries: int) -> Case:
    """A case of one of the methods, with up to so many queries."""
    method = pick(draw, methods)
    made, model = table(draw, numbers=method in LOOKS_INSIDE), model_of(draw, method)
    relax = method.startswith("relax")
    return Case(
        made,
        model,
        goal_of(draw, model),
        call_of(draw, len(made.columns), queries, least=1 if method in LOOKS_INSIDE else 0),
        method,
        pick(draw, ("search", "refined", "policy")) if relax else None,
        pick(draw, ("auto", "model", "signed")) if relax else "auto",
        pick(draw, (None, None, None, None, 1, 2, 3, 4)),
        pick(draw, range(4)),
        pick(draw, ("", "", "", "again", "refit", "threads", "json", "twin")),
        seldom(draw),
    )


def group_cases(group: str, fewer: int = 1) -> Any:
    """Cases of a group; `fewer` divides the number of queries."""
    methods, queries = GROUPS[group]
    return cases(methods, queries // fewer)


@st.composite
def face_cases(draw: Any) -> FaceCase:
    """A case of a quick method behind one of the faces, or of ReLAX now and then, as the face's host would have it."""
    face = pick(draw, FACES)
    case = replace(draw(cases(("greedy", "nearest-ct", "greedy", "nearest-ct", "relax-global"), 40)), extra="")
    if face in ("carla", "dice"):
        made = replace(table(draw, dtypes=HOST_DTYPES[face]), index="range")
        model = replace(case.model, family="probabilities", labels="int", classes=max(case.model.classes, 2))
        call = Call(pick(draw, range(1, 13)), case.call.n)
        case = replace(case, table=made, model=model, wanted=Wanted("to", case.wanted.choice), call=call)
    if face == "alibi":
        wanted = replace(case.wanted, min_probability=None)
        case = replace(case, call=Call(case.call.queries), wanted=wanted)
    if case.wanted.kind == "between each":  # a face has one goal for whatever rows come
        case = replace(case, wanted=replace(case.wanted, kind="between"))
    return FaceCase(face, case)


REAL_METHODS = (
    *("greedy", "nearest-ct", "relax-global", "surrogate-search", "move-table", "nearest-ct", "greedy"),
    *("relax-global", "dice-random", "lore"),
)


def real_column(draw: Any) -> RealColumn:
    """A column with or without gaps; one in eight is carried."""
    dtypes = REAL_CARRIED if seldom(draw) else pick(draw, (REAL_NUMBERS, REAL_NUMBERS, REAL_LABELS))
    return RealColumn(
        pick(draw, dtypes),
        pick(draw, (0.0, 0.1, 0.3, 0.0)),
        int(seldom(draw)),
        pick(draw, RULES),
        seldom(draw),
        seldom(draw),
        seldom(draw),
        pick(draw, (2, 3, 4, 5)),
    )


def real_table(draw: Any) -> RealTable:
    columns = tuple(real_column(draw) for _ in range(pick(draw, (2, 3, 4, 5, 6))))
    groups = tuple(
        (pick(draw, (2, 3, 4)), pick(draw, ("int64", "bool", "uint8", "float64")))
        for _ in range(pick(draw, (0, 0, 1, 2)))
    )
    hows = ("sum", "ratio", "most")
    derived = tuple(
        (pick(draw, range(4)), pick(draw, range(4)), pick(draw, hows)) for _ in range(pick(draw, (0, 0, 1, 2)))
    )
    return RealTable(
        columns, groups, derived, seldom(draw), draw(st.booleans()), pick(draw, (100, 120, 140)), pick(draw, SEEDS)
    )


def real_rules(draw: Any, counts: Sequence[int]) -> tuple[RealRule, ...]:
    return tuple(
        RealRule(pick(draw, KINDS), pick(draw, range(4)), pick(draw, range(4)), pick(draw, range(4)))
        for _ in range(pick(draw, counts))
    )


@st.composite
def real_cases(draw: Any, queries: int = 40) -> RealCase:
    """A case of a table as people have them."""
    call = RealCall(
        pick(draw, (queries, queries // 2, 1)),
        pick(draw, (1, 1, 2, 3)),
        pick(draw, HANDED),
        tuple(pick(draw, range(6)) for _ in range(pick(draw, (0, 0, 0, 1)))),
        tuple(pick(draw, range(6)) for _ in range(pick(draw, (0, 0, 0, 1)))),
        pick(draw, (None, None, None, 0, 1)),
        pick(draw, (None, None, None, 1, 2, 3)),
        seldom(draw),
        "prefer" if seldom(draw) and seldom(draw) else None,
    )
    return RealCase(
        real_table(draw),
        real_rules(draw, (0, 1, 1, 2)),
        real_rules(draw, (0, 0, 0, 1)),
        call,
        pick(draw, REAL_METHODS),
        pick(draw, (2, 3)),
        draw(st.booleans()),
        draw(st.booleans()),
        pick(draw, (None, None, 2, 4)),
        pick(draw, range(4)),
        pick(draw, ("", "", "again", "json")),
    )
