"""cached_property without a lock, whose values are neither pickled nor copied."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """A property that is computed once per instance.

    It differs from `functools.cached_property` in two ways. It has no lock: on Python 3.11 a process that forks while
    another thread computes a value would find that lock taken for ever. And pickles and copies of the instance are made
    without the values, so that an object has the same pickle, and the same `joblib.hash`, before and after its use.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name
        kind: Any = owner
        if kind.__getstate__ is object.__getstate__:
            kind.__getstate__ = state_without_cached

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> "cached_property[T]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any]) -> "cached_property[T] | T":
        if instance is None:
            return self
        value = vars(instance)[self.name] = self.function(instance)
        return value


def state_without_cached(instance: object) -> dict[str, Any]:
    """The attributes of an instance without the values of its cached properties."""
    kind = type(instance)
    own = vars(instance).items()
    return {name: value for name, value in own if not isinstance(getattr(kind, name, None), cached_property)}
