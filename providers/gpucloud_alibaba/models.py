"""Loads a class of ECS's SDK when it is first used: the SDK has 1,150 modules of them, a launch uses a tenth.

The SDK's own package imports all of them at once, which costs every process 0.1 s and 20 MB (measured with
7.11.8).
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, cast

NAME = "alibabacloud_ecs20140526.models"
RUNNING = "gpucloud_running"
_OPERATION = re.compile(r".+?(?:Request|ResponseBody|Response)")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z0-9])")
_lock = threading.RLock()
log = logging.getLogger(__name__)


@cache
def ecs_models() -> Any:
    """The package of the SDK's request and answer classes; each is imported when it is first read.

    The SDK's client must be imported after the first call. A program that imported the SDK before keeps the
    package that it has. (The annotations of the classes do not mark optional members, so they stay ``Any``.)
    """
    with _lock:
        return sys.modules.get(NAME) or _on_demand()


def _on_demand() -> ModuleType:
    spec = find_spec(NAME)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        log.debug("all of %s is imported: it is no package", NAME)
        return import_module(NAME)
    package = module_from_spec(spec)
    package.__class__ = _OnDemand
    parent, _, child = NAME.rpartition(".")
    sys.modules[NAME] = package
    setattr(sys.modules[parent], child, package)
    return package


class _OnDemand(ModuleType):
    """The package before it runs.

    Each class is looked for in the module that is named after its operation. Whatever is not found there has
    the whole package run, as by an ordinary import; from then on it is an ordinary one.
    """

    def __getattr__(self, name: str) -> Any:
        operation = _OPERATION.match(name)
        if operation is not None:
            with suppress(ImportError, AttributeError):
                value = getattr(import_module(_module_of(operation[0])), name)
                setattr(self, name, value)
                return value
        _run(self, name)
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        _run(self, "__dir__")
        return dir(self)


def _run(package: ModuleType, name: str) -> None:
    """Runs a package once. Other threads wait; what it reads of itself meanwhile, it does not have yet."""
    with _lock:
        if package.__class__ is ModuleType:
            return
        if RUNNING in vars(package):
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}", name=name, obj=package)
        log.debug("all of %s is imported, for its %s", NAME, name)
        vars(package)[RUNNING] = True
        try:
            cast("Loader", cast("ModuleSpec", package.__spec__).loader).exec_module(package)
        finally:
            del vars(package)[RUNNING]
        package.__class__ = ModuleType


def _module_of(operation: str) -> str:
    """``….models._run_instances_request`` of ``RunInstancesRequest``."""
    return f"{NAME}._{_WORD.sub('_', operation).lower()}"
