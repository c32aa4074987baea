"""What ``show`` says of one box."""

from __future__ import annotations

from tests.shell import Shell


def test_what_the_launch_asked_for_is_shown_too(cli: Shell) -> None:
    """What a user looks for when one box behaves otherwise than another."""
    cli.launch(
        *("--gpu", "T4", "--cloud", "aws", "--name", "x", "--disk", "200", "--tags", "team=vision"),
        *("--setup", "true", "--env", "TOKEN=secret"),
    )
    shown = dict(line.split(maxsplit=1) for line in cli("show", "x").out.splitlines())
    assert (shown["disk"], shown["setup"], shown["tags"]) == ("200", "true", "team=vision")
    document = cli("show", "x", "--json").json
    assert document["spec"]["disk"] == 200
    assert document["spec"]["env"] == {"TOKEN": None}
    assert "secret" not in str(document)
