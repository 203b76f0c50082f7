"""The pickler for objects that the other side cannot import. It extends cloudpickle with functions that have a cache
(:func:`functools.lru_cache`) and functions that dispatch by type (:func:`functools.singledispatch`)."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache, reduce, singledispatch, update_wrapper
from types import FunctionType
from typing import Any

import cloudpickle

from phalanx.security import Marks, keys_may_travel, marks_of

#: The code and the attributes that all functions made by :func:`functools.singledispatch` have.
_DISPATCH: Any = singledispatch(len)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles objects of this program's main module, and of modules registered for it, by value.

    ``marks`` are the marks of all functions that it has met.
    """

    marks: Marks = frozenset()

    def reducer_override(self, item: Any) -> Any:
        """How an object is pickled, as :meth:`pickle.Pickler.reducer_override`."""
        if isinstance(item, FunctionType):
            self.marks |= marks_of(item)  # a function that the program calls
        if isinstance(item, _proxies()) and keys_may_travel():
            return _reduce_proxy(item)
        if isinstance(item, _lru_cache_wrapper) and not _is_importable(item):
            return self._reduce_cached(item)
        if isinstance(item, FunctionType) and item.__code__ is _DISPATCH.__code__ and not _is_importable(item):
            return _reduce_dispatching(item)
        return super().reducer_override(item)

    def _reduce_cached(self, cached: Any) -> Any:
        """Pickles the objects of ``functools.cache`` and ``lru_cache``, which pickle knows only by name. Caches do not
        travel: an interpreter begins with an empty one."""
        options, function = cached.cache_parameters(), cached.__wrapped__
        self.marks |= marks_of(function)
        if not isinstance(function, FunctionType):
            return _cached, (options, _itself, function)
        # The function is filled after its wrapper is in the pickle, because it may call itself through the wrapper.
        make, arguments, state, _, _, fill = self._dynamic_function_reduce(function)
        own = {name: value for name, value in vars(cached).items() if name not in ("__wrapped__", "cache_parameters")}
        return _cached, (options, make, *arguments), (fill, state, own), None, None, _fill_cached


def dumps_by_value(item: Any, protocol: int, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    """An object as a pickle made by :class:`Pickler`."""
    file = io.BytesIO()
    Pickler(file, protocol, buffer_callback=buffer_callback).dump(item)
    return file.getvalue()


def _proxies() -> tuple[type, ...]:
    """The class of the proxies of :mod:`multiprocessing`'s managers, if there can be any."""
    managers = sys.modules.get("multiprocessing.managers")
    return () if managers is None else (managers.BaseProxy,)


def _reduce_proxy(proxy: Any) -> Any:
    """Pickles a proxy as the standard library does for its children, together with the key of this process."""
    from multiprocessing.process import current_process

    rebuild, (function, token, serializer, options) = proxy.__reduce__()
    options = {"authkey": bytes(proxy._authkey), **options}
    return _rebuild_proxy, (bytes(current_process().authkey), rebuild, (function, token, serializer, options))


def _rebuild_proxy(key: bytes, rebuild: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    from multiprocessing.process import current_process

    current_process().authkey = key
    return rebuild(*arguments)


def _is_importable(item: Any) -> bool:
    """Whether the other side finds the object by its name, as pickle looks for it."""
    module = sys.modules.get(item.__module__ or "")
    if module is None or module.__name__ == "__main__" or _is_registered(module.__name__):
        return False
    try:
        found: Any = reduce(getattr, item.__qualname__.split("."), module)
    except AttributeError:
        return False
    return found is item


def _is_registered(module: str) -> bool:
    registered = cloudpickle.list_registry_pickle_by_value()
    return any(module == name or module.startswith(f"{name}.") for name in registered)


def _reduce_dispatching(item: Any) -> Any:
    """Pickles a function of ``functools.singledispatch``, whose closure has weak references that cannot travel. The
    implementations follow after the function is in the pickle, because they may call it."""
    own = {name: value for name, value in vars(item).items() if name not in vars(_DISPATCH)}
    state = list(item.registry.items()), item.registry[object], own
    return _dispatching, (item.__name__,), state, None, None, _fill_dispatching


def _dispatching(name: str) -> Any:
    def nothing(item: object) -> None: ...

    nothing.__name__ = name  # error messages show this name
    return singledispatch(nothing)


def _fill_dispatching(item: Any, state: tuple[list[tuple[type, Any]], Any, dict[str, Any]]) -> None:
    implementations, default, own = state
    for kind, implementation in implementations:
        item.register(kind, implementation)
    update_wrapper(item, default)
    vars(item).update(own)


def _cached(options: dict[str, Any], make: Callable[..., Any], *arguments: Any) -> Any:
    return lru_cache(**options)(make(*arguments))


def _itself(function: Any) -> Any:
    return function


def _fill_cached(cached: Any, state: tuple[Callable[..., Any], Any, dict[str, Any]]) -> None:
    fill, of_function, of_wrapper = state
    function = cached.__wrapped__
    fill(function, of_function)
    update_wrapper(cached, function)
    vars(cached).update(of_wrapper)
