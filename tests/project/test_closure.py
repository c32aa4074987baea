"""``make check``: which tests a change selects, and what it leaves to ``make test``."""

from __future__ import annotations

from functools import cache

import pytest

from tests.closure import (
    BUDGET_CPU_S,
    UNKNOWN_CPU_S,
    Selection,
    Tree,
    linters,
    read_tree,
    select,
    used_by,
)

PROVIDER = "providers/gpucloud_aws/create.py"
EMULATOR = "sandbox/gpucloud_sandbox/aws/instances.py"
COST = "gpucloud/costs/comparison.py"
GONE = "g" + "one"  # whoever names a file reads it, and this is none that does
FREE = 0.0


@cache
def checkout() -> Tree:
    return read_tree()


def selected(*changed: str, budget_cpu_s: float = BUDGET_CPU_S, cpu_s: float = FREE) -> Selection:
    """What changes select where each file of tests costs the same."""
    costs = dict.fromkeys(checkout().texts, cpu_s)
    return select(changed, checkout(), costs, budget_cpu_s)


def test_a_change_runs_the_tests_of_its_room_first_and_of_the_command_that_uses_it() -> None:
    run = selected(COST).run
    room = {each for each in checkout().texts if each.startswith("tests/costs/test_")}
    assert room
    assert set(run[: len(room)]) == room
    assert run.index("tests/cli/test_cost.py") < run.index("tests/cli/test_volume.py")


def test_a_command_runs_its_own_tests_before_those_that_call_it() -> None:
    run = selected("gpucloud/cli/ssh_config.py").run
    assert run[0] == "tests/cli/test_ssh_config.py"
    assert "tests/cli/test_cost_work.py" not in run
    assert selected("gpucloud/cli/cost.py").run.index("tests/cli/test_cost_work.py") < 5


def test_a_clouds_package_runs_its_own_tests_and_none_of_another_clouds() -> None:
    run = selected(PROVIDER).run
    assert {"tests/providers/test_aws_conformance.py", "tests/sandbox/test_aws_launch.py"} <= set(run)
    assert [each for each in run if "test_azure_" in each or "test_alibaba_" in each] == []
    assert "tests/cli/test_three_clouds.py" in run[run.index("tests/providers/test_aws_conformance.py") :]


@pytest.mark.parametrize(
    ("page", "reader"),
    [
        ("docs/library.md", "tests/api/test_library_page.py"),
        ("docs/tutorials/a-page.md", "tests/cli/test_tutorials.py"),
        ("README.md", "tests/cli/test_readme.py"),
        ("docs/monitoring.md", "tests/monitoring/test_page.py"),
    ],
)
def test_a_page_runs_the_tests_that_read_it_and_few_more(page: str, reader: str) -> None:
    run = selected(page).run
    assert reader in run
    assert "tests/project/test_site.py" in run
    assert len(run) < 20
    assert linters([page], [page]) == []


def test_data_is_a_change_of_the_modules_beside_it() -> None:
    run = selected("providers/gpucloud_azure/errors.csv").run
    assert "tests/providers/test_azure_errors.py" in run
    assert "tests/providers/test_documented_errors.py" in run
    assert "tests/providers/test_aws_echo.py" not in run
    assert "tests/boot/test_boot.py" in selected("templates/gpucloud_templates/guard/a-script.sh").run


def test_a_changed_test_comes_first_and_a_changed_helper_runs_who_imports_it() -> None:
    run = selected(COST, "tests/ssh/test_client.py").run
    assert run[0] == "tests/ssh/test_client.py"
    assert "tests/costs/test_focus.py" in selected("tests/costs/focus_rules.py").run
    assert "tests/sandbox/test_boxes.py" in selected("tests/sandbox/conftest.py").run


def test_what_was_deleted_is_no_error_and_runs_what_it_was_for() -> None:
    module, helper = selected("gpucloud/costs/gone.py").run, selected("tests/costs/test_gone.py").run
    assert "tests/costs/test_focus.py" in module
    assert "tests/costs/test_gone.py" not in helper
    assert selected(f"gone/{GONE}.txt").run == []
    assert used_by("tests/test_a.py", "from tests.gone import it", ())["tests/gone.py"] == 1
    assert all("gone" not in word for words in linters(["gpucloud/gone.py"], []) for word in words)


def test_the_nearest_run_within_the_budget_and_the_others_are_named() -> None:
    whole, part = selected(COST, cpu_s=1.0), selected(COST, cpu_s=1.0, budget_cpu_s=20.5)
    assert len(part.run) == 20
    assert part.run == whole.run[:20]
    assert set(part.run) | set(part.left) == {*whole.run, *whole.left}
    assert part.left_cpu_s == len(part.left)
    assert f"left to `make test`: {len(part.left)} files, {len(part.left)} CPU seconds" in part.told()
    assert part.left[0] in part.told()
    assert "\n" not in part.told()


def test_a_cheap_test_fits_where_a_dear_one_does_not_and_an_unknown_cost_is_counted() -> None:
    near, far = "tests/costs/test_focus.py", "tests/cli/test_cost.py"
    costs = dict.fromkeys(checkout().texts, 100.0) | {far: 1.0}
    assert select([COST], checkout(), costs, 2.0).run == [far]
    assert near in select([COST], checkout(), costs, 2.0).left
    assert len(select([COST], checkout(), {}, 4 * UNKNOWN_CPU_S).run) == 4


def test_what_is_left_to_make_thorough_is_run_where_its_own_place_changed() -> None:
    tree = checkout()
    aws, azure = "tests/sandbox/test_aws_launch.py", "tests/sandbox/test_azure_launch.py"
    plug_in, part = "tests/providers/test_aws_launch.py", "tests/providers/test_aws_errors.py"
    thorough = {aws: True, azure: True, plug_in: True, part: False}
    tree = Tree(tree.users, tree.modules, tree.texts, tree.elsewhere, thorough)

    def chosen(*changed: str) -> Selection:
        return select(changed, tree, {}, 5000.0)

    assert chosen(EMULATOR).whole == {aws, plug_in, part}
    assert chosen("sandbox/gpucloud_sandbox/ledger.py").whole == {aws, azure}
    assert chosen(PROVIDER).whole == {aws, plug_in}
    assert part in chosen(PROVIDER).run, "what make test runs of it"
    assert chosen(PROVIDER, azure, part).whole == {aws, azure, plug_in, part}
    far = chosen("gpucloud/errors.py")
    assert far.whole.isdisjoint({aws, azure})
    assert set(far.run + far.left).isdisjoint({aws, azure}), "make test runs nothing of them"


def test_tests_that_need_more_than_the_environment_are_never_run() -> None:
    for room in ("fidelity", "engines", "team"):
        assert not [each for each in selected("gpucloud/errors.py").run if each.startswith(f"tests/{room}/")]
    assert "tests/team/test_roles.py" not in selected("tests/team/test_roles.py").run


def test_only_what_changed_is_linted_and_all_where_the_rules_changed() -> None:
    def programs(*changed: str) -> list[str]:
        return [" ".join(words) for words in linters(changed, changed)]

    ruff = ["ruff check --force-exclude", "ruff format --check --force-exclude"]
    assert programs(COST) == [*[f"{each} {COST}" for each in ruff], "mypy", "lint-imports"]
    assert programs("tests/bench.py") == [*[f"{each} tests/bench.py" for each in ruff], "mypy"]
    assert programs("pyproject.toml") == [*[f"{each} ." for each in ruff], "mypy", "lint-imports"]


def test_the_files_that_these_tests_name_are_there() -> None:
    assert {PROVIDER, EMULATOR, COST} <= checkout().modules
