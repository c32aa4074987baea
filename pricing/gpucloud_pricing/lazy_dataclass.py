"""Dataclasses whose methods are made when they are first needed.

The standard library compiles up to seven methods when a frozen dataclass is declared: half of the time in
which ``gpucloud list`` starts. Here ``__init__`` is compiled when the first value is made, and the other
methods are shared. All of :mod:`dataclasses` works on these classes, and type checkers take
:func:`dataclass` for its namesake there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, frozen=False, slots=False, kw_only=False, **more):
        """Declares a dataclass: a frozen one is made as said above, others as the standard library does."""
        if more or not frozen:
            return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, **more)

        def declare(cls):
            bare = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            return _with_methods(bare(cls))

        return declare

    def _with_methods(cls):
        fields = dataclasses.fields(cls)
        compared = [each.name for each in fields if each.compare]
        key = attrgetter(*compared) if compared else lambda _: ()

        def first_init(self, *args, **values):
            cls.__init__ = _compile_init(cls, fields)
            cls.__init__(self, *args, **values)

        def equals(self, other):
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        own = {
            "__init__": first_init,
            "__eq__": equals,
            "__hash__": lambda self: hash(key(self)),
        }
        for name, method in {**_SHARED, **own}.items():
            if name not in vars(cls):
                setattr(cls, name, method)
        return cls

    def _compile_init(cls, fields):
        """The method that the standard library would have made: one parameter for each field, in order."""
        names = {"set_field": object.__setattr__, "missing": dataclasses.MISSING}
        parameters = {False: ["self"], True: []}  # by whether they are given by name alone
        lines = []
        for each in fields:
            default, value = "", each.name
            if each.default is not dataclasses.MISSING:
                default = f"=default_{each.name}"
                names[f"default_{each.name}"] = each.default
            elif each.default_factory is not dataclasses.MISSING:
                default, value = "=missing", f"make_{each.name}() if {each.name} is missing else {each.name}"
                names[f"make_{each.name}"] = each.default_factory
            parameters[each.kw_only].append(each.name + default)
            lines.append(f"    set_field(self, {each.name!r}, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append("    self.__post_init__()")
        by_name = ["*", *parameters[True]] if parameters[True] else []
        head = f"def __init__({', '.join([*parameters[False], *by_name])}):"
        exec("\n".join([head, *(lines or ["    pass"])]), names)  # noqa: S102  # nosec B102  (as the standard library does)
        names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return names["__init__"]

    def _represent(self):
        shown = [each.name for each in dataclasses.fields(self) if each.repr]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def _refuse(_, name, *__):
        raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")

    def _state(self):
        return [getattr(self, each.name) for each in dataclasses.fields(self)]

    def _restore(self, state):
        for each, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)

    _SHARED = {
        "__repr__": _represent,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
