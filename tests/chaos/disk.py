"""SQLite on a disk that fails, fills up, or forgets what was not synced when the power goes.

SQLite reaches its files through a table of functions (https://sqlite.org/c3ref/io_methods.html), which a
process may change for itself: here every file that it opens gets our own ``xWrite`` and ``xSync``.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

OK, FULL, FAILED_SYNC = 0, 13, 1034  # SQLITE_OK, SQLITE_FULL, SQLITE_IOERR_FSYNC
FUNCTIONS = ("Close", "Read", "Write", "Truncate", "Sync")
REST = 13
"""Functions after those, up to the third version of the table."""


class _Methods(ctypes.Structure):
    _fields_: ClassVar = [
        ("iVersion", ctypes.c_int),
        *((f"x{name}", ctypes.c_void_p) for name in FUNCTIONS),
        ("rest", ctypes.c_void_p * REST),
    ]


class _File(ctypes.Structure):
    _fields_: ClassVar = [("methods", ctypes.POINTER(_Methods))]


class _Vfs(ctypes.Structure):
    _fields_: ClassVar = [
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        ("xOpen", ctypes.c_void_p),
    ]


_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_File), ctypes.c_int, ctypes.c_void_p
)
"""The name is a pointer as it came: SQLite keeps it, and would keep one to a copy of ours that is gone."""
_Write = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_File), ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_File), ctypes.c_int)
_kept: list[Any] = []
"""What C code points to must not be collected."""


def interpose(
    on_write: Callable[[], int], on_sync: Callable[[], int], synced: Callable[[Path], None]
) -> None:
    """From now on SQLite asks before it writes and syncs, and tells what it has synced.

    Args:
        on_write: gives ``OK``, or the error of the write that is about to happen.
        on_sync: the same of a sync.
        synced: is told of a file that is on the disk as it is.
    """
    name = ctypes.util.find_library("sqlite3")
    assert name is not None, "SQLite is not a shared library here"
    library = ctypes.CDLL(name)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None).contents
    original_open = _Open(vfs.xOpen)
    names: dict[int, Path] = {}

    def opened(vfs_: int, path: int | None, file: Any, flags: int, out: int) -> int:
        code: int = original_open(vfs_, path, file, flags, out)
        if code == OK and path is not None:
            names[ctypes.addressof(file.contents)] = Path(ctypes.string_at(path).decode())
            _replace(file)
        return code

    def _replace(file: Any) -> None:
        methods = _Methods.from_buffer_copy(file.contents.methods.contents)
        write, sync = _Write(methods.xWrite), _Sync(methods.xSync)

        def our_write(file_: Any, data: int, count: int, at: int) -> int:
            code: int = on_write() or write(file_, data, count, at)
            return code

        def our_sync(file_: Any, flags: int) -> int:
            code: int = on_sync() or sync(file_, flags)
            if code == OK:
                synced(names[ctypes.addressof(file_.contents)])
            return code

        ours = _Write(our_write), _Sync(our_sync)
        methods.xWrite, methods.xSync = (ctypes.cast(each, ctypes.c_void_p).value for each in ours)
        file.contents.methods = ctypes.pointer(methods)
        _kept.append((methods, ours, write, sync))

    hook = _Open(opened)
    _kept.append((hook, original_open))
    vfs.xOpen = ctypes.cast(hook, ctypes.c_void_p).value
