"""The interpreters refuse what they do not know: a recipe that passes has been understood whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ci import jenkins
from tests.ci.github import EVENT, evaluate, fill


@pytest.mark.parametrize(
    "expression",
    [
        "github.repositry_id",
        "inputs.gpu",
        "steps.run.outputs.box",
        "failure()",
        "a || b",
        "format('{0}', 'x')",
    ],
)
def test_an_expression_that_is_not_known_fails(expression: str) -> None:
    with pytest.raises(AssertionError):
        evaluate(expression, {**EVENT, "steps": {}})


def test_an_output_of_a_step_that_was_skipped_is_empty() -> None:
    spend: dict[str, Any] = {"outcome": "skipped", "outputs": {}}
    assert fill("<${{ steps.spend.outputs.document }}>", {"steps": {"spend": spend}}) == "<>"


@pytest.mark.parametrize(
    "text", ["pipeline {", "pipeline { # }", "pipeline { sh 'x' }\n}", "pipeline { sh $x }"]
)
def test_a_pipeline_that_is_not_understood_fails(text: str) -> None:
    with pytest.raises(AssertionError):
        jenkins.parse(text)


def test_a_string_of_a_pipeline_is_interpolated_only_in_double_quotes() -> None:
    [statement] = jenkins.parse("""environment { A = "x-${env.B}" C = 'y-${env.B}' }""")
    values = [jenkins.value(each.arguments[0], {"B": "1"}) for each in statement.body]
    assert values == ["x-1", "y-${env.B}"]
