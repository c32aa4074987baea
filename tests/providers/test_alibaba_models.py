"""The classes of ECS's SDK, each imported when it is first read. Programs of their own import them here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.later_sdks import later_ecs

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


def test_every_class_that_the_sdk_exports_can_be_read_by_itself() -> None:
    exported = output_of(f"import {PACKAGE} as all; print(*sorted(kind.__name__ for kind in all.__all__))")
    assert len(exported.split()) > 1000
    assert (
        output_of(
            "from gpucloud_alibaba.models import ecs_models\n"
            "models = ecs_models()\n"
            f"names = {exported.split()}\n"
            "print(*(getattr(models, name).__name__ for name in names))\n"
            "assert '__all__' not in vars(models), 'the whole package was imported'"
        )
        == exported
    )


@pytest.mark.parametrize("shown", ["sorted(dir(all))", "[kind.__name__ for kind in all.__all__]"])
def test_the_package_shows_the_names_that_the_sdk_shows(shown: str) -> None:
    alone = output_of(f"import {PACKAGE} as all; print(*{shown})")
    assert (
        output_of(f"from gpucloud_alibaba.models import ecs_models; all = ecs_models(); print(*{shown})")
        == alone
    )


@pytest.mark.parametrize("place", ["models.py", "models/__init__.py"])
def test_an_sdk_with_its_classes_elsewhere_is_imported_as_a_whole(tmp_path: Path, place: str) -> None:
    """Only the log says so, for those who look."""
    later_ecs(tmp_path, place)
    said = output_of(
        "import logging, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format='%(levelname)s %(name)s')\n"
        "from gpucloud_alibaba.models import ecs_models\n"
        "models = ecs_models()\n"
        "print(models.RunInstancesRequest(amount=2).amount, models.StopInstanceRequest.__name__)\n"
        "assert models is sys.modules[models.__name__]"
    )
    assert said.splitlines() == ["DEBUG gpucloud_alibaba.models", "2 StopInstanceRequest"]


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
