"""The classes of ECS's SDK, each imported when it is first read. Programs of their own import them here."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGE = "alibabacloud_ecs20140526.models"


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_only_the_classes_that_are_read_are_imported() -> None:
    loaded = f"sorted(name for name in sys.modules if name.startswith('{PACKAGE}.'))"
    assert (
        output_of(
            "import sys\n"
            "from gpucloud_alibaba.models import ecs_models\n"
            "models = ecs_models()\n"
            "import alibabacloud_ecs20140526.client\n"
            "models.RunInstancesRequest().from_map({'SystemDisk': {'Size': '100'}})\n"
            f"print(*{loaded})"
        )
        == f"{PACKAGE}._run_instances_request"
    )


def test_every_class_that_the_sdk_exports_can_be_read() -> None:
    exported = output_of(f"import {PACKAGE} as all; print(*sorted(kind.__name__ for kind in all.__all__))")
    assert len(exported.split()) > 1000
    assert (
        output_of(
            "from gpucloud_alibaba.models import ecs_models\n"
            "models = ecs_models()\n"
            "names = dir(models)\n"
            "assert all(getattr(models, name).__name__ == name for name in names)\n"
            "print(*names)"
        )
        == exported
    )


def test_a_star_import_of_the_program_around_it_still_works() -> None:
    assert (
        output_of(
            "from gpucloud_alibaba.models import ecs_models\n"
            "ecs_models()\n"
            f"from {PACKAGE} import *\n"
            "print(RunInstancesRequest.__module__)"
        )
        == f"{PACKAGE}._run_instances_request"
    )


def test_a_program_that_imported_the_sdk_before_keeps_it() -> None:
    assert (
        output_of(
            f"import {PACKAGE} as own\n"
            "from gpucloud_alibaba.models import ecs_models\n"
            "print(ecs_models() is own)"
        )
        == "True"
    )


def test_a_class_that_the_sdk_does_not_have_is_refused_as_by_any_module() -> None:
    from gpucloud_alibaba.models import ecs_models

    with pytest.raises(AttributeError, match="NoSuchRequest"):
        ecs_models().NoSuchRequest  # noqa: B018
