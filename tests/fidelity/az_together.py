"""Several commands of ``az`` in one process, in the environment of the clients: a line of JSON for each."""

import io
import json
import shlex
import sys

from azure.cli.core import get_default_cli


def main(lines: list[str]) -> int:
    """Runs the commands in order, up to one that fails."""
    for line in lines:
        az = get_default_cli()  # one that has run a command knows the modules of that command alone
        code = az.invoke(shlex.split(line), out_file=io.StringIO())
        if code:
            return int(code)
        print(json.dumps(az.result.result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
