"""``gpucloud completion``: the script with which a shell completes commands, options and values."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App

if TYPE_CHECKING:
    from gpucloud.cli.documents.program import CompletionDocument


class Shell(StrEnum):
    """The shells that can complete gpucloud."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# Each script asks `gpucloud` with the variables of gpucloud.cli.completing. Exit code 1 means that file names
# may stand there, too. A word that ends in a colon goes on: no space follows it.
_BASH = r"""
_gpucloud_completion() {
    local IFS=$'\n'
    local -x _GPUCLOUD_COMPLETE=complete_bash
    COMPREPLY=( $(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD "$1" 2>/dev/null) )
    [ $? -eq 1 ] && compopt -o default 2>/dev/null
    [[ ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _gpucloud_completion gpucloud
"""

_ZSH = r"""#compdef gpucloud
_gpucloud() {
    local answer files line typed="${(j: :)words[1,CURRENT]}"
    local -a whole open
    answer="$(_GPUCLOUD_COMPLETE=complete_zsh _TYPER_COMPLETE_ARGS="$typed" $words[1] 2>/dev/null)"
    files=$?
    for line in ${(f)answer}; do
        if [[ $line == *'\:':* ]]; then open+=("$line"); else whole+=("$line"); fi
    done
    _describe -V gpucloud whole -- open -S ''
    [[ $files == 1 ]] && _files
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _gpucloud "$@"; else compdef _gpucloud gpucloud; fi
"""

_FISH = r"""
function __gpucloud_complete
    set -l line (commandline --cut-at-cursor --current-process | string collect)
    set -l words (env _GPUCLOUD_COMPLETE=complete_fish _TYPER_COMPLETE_ARGS=$line gpucloud 2>/dev/null)
    set -l files $status
    printf '%s\n' $words
    test $files -eq 1; and __fish_complete_path (commandline --current-token --cut-at-cursor)
end
complete --command gpucloud --no-files --keep-order --arguments '(__gpucloud_complete)'
"""

SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion(
    app: App, shell: Annotated[Shell, typer.Argument(help="Shell: bash, zsh or fish.", metavar="SHELL")]
) -> None:
    """Print the completion script of a shell: commands, options, and names of boxes, GPUs and regions.

    bash: gpucloud completion bash >> ~/.bashrc

    zsh: gpucloud completion zsh >> ~/.zshrc, after compinit

    fish: gpucloud completion fish > ~/.config/fish/completions/gpucloud.fish

    Examples:
        gpucloud completion bash
        gpucloud completion zsh
    """
    script = SCRIPTS[shell].strip()
    if app.output.json:
        answer: CompletionDocument = {"shell": shell.value, "script": script}
        app.output.document("completion", answer)
    else:
        app.output.line(script)
