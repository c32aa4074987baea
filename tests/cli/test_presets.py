"""``--preset`` on the command line: what it decides is said; what is wrong is refused."""

from __future__ import annotations

from tests.shell import Shell


def test_a_plan_says_what_the_preset_decided(cli: Shell) -> None:
    ran = cli("plan", "--preset", "infer", "--cloud", "aws", "--image", "cuda", "--json")
    assert ran.json["preset"] == {
        "name": "infer",
        "fields": {"gpu": "L4,A10,A10G,L40S,T4", "purchase": ["on-demand"], "disk": 150},
    }
    assert "Preset infer: gpu L4,A10,A10G,L40S,T4; purchase on-demand; disk 150.\n" in ran.err
    assert (ran.json["spec"]["preset"], ran.json["spec"]["image"]) == ("infer", "cuda")


def test_an_unknown_preset_is_refused_before_anything_is_asked(cli: Shell) -> None:
    ran = cli("launch", "--preset", "trian", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert (
        "--preset: unknown value 'trian'; allowed: train, infer, render, science; did you mean train?"
        in ran.err
    )
    assert cli.sandbox.calls() == []
