"""Several commands of ``aws`` in one process: a line of JSON for each."""

import io
import json
import shlex
import sys
from contextlib import redirect_stdout

from awscli.clidriver import create_clidriver


def main(lines: list[str]) -> int:
    """Runs the commands in order, up to one that fails."""
    aws = create_clidriver()
    for line in lines:
        with redirect_stdout(io.StringIO()) as said:
            code = aws.main(["--output", "json", *shlex.split(line)])
        if code:
            return int(code)
        print(json.dumps(json.loads(said.getvalue())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
