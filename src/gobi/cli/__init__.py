"""The command line: `gobi COMMAND`. A new command is one typed function and one line in COMMANDS."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import gobi
from gobi.cli import (
    claims,
    compare,
    demo,
    doctor,
    evaluate,
    heatmap,
    learners,
    parity,
    play,
    plot,
    reproduce,
    rewards,
    tasks,
    train,
    watch,
    zoo,
)
from gobi.cli.arguments import UsageError, bind
from gobi.cli.compiled import keep_compiled
from gobi.cli.heap import few_arenas
from gobi.cli.terminal import say, show
from gobi.errors import GobiError, unknown

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train.train,
    "resume": train.resume,
    "evaluate": evaluate.evaluate,
    "watch": watch.watch,
    "heatmap": heatmap.heatmap,
    "plot": plot.plot,
    "compare": compare.compare,
    "reproduce": reproduce.reproduce,
    "claims": claims.claims,
    "recipe": train.recipe,
    "demo": demo.demo,
    "tasks": tasks.tasks,
    "rewards": rewards.rewards,
    "learners": learners.learners,
    "zoo": zoo.zoo,
    "play": play.play,
    "parity": parity.parity,
    "doctor": doctor.doctor,
}
"""The parameters of each function are the flags of its command, its docstring is their help."""

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, by default the one of `sys.argv`, and returns the exit code.

    Whatever goes wrong is told in one line; `--debug`, anywhere among the arguments, shows the traceback too.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        _run([word for word in words if word != "--debug"])
        sys.stdout.flush()
        return OK
    except SystemExit as end:
        return OK if end.code in (None, OK) else FAILED
    except KeyboardInterrupt:
        print("gobi: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if debug:
            raise
        return _report(error)


def _run(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        _show_help()
        return
    name, *rest = words
    if name == "--version":
        print(f"gobi {gobi.__version__}")
        return
    if name not in COMMANDS:
        raise UsageError(f"{unknown('command', name, COMMANDS)} (see gobi --help)")
    command = bind(COMMANDS[name], rest, program=f"gobi {name}")
    few_arenas()
    keep_compiled()
    command()


def _show_help() -> None:
    say("usage: gobi COMMAND [options]\n\nExploration for reinforcement learning in JAX.\n")
    rows = [(f"  {name}", (command.__doc__ or "").partition("\n")[0]) for name, command in COMMANDS.items()]
    rows.append(("", ""))
    rows.append(("  COMMAND --help", "Shows what a command takes."))
    rows.append(("  --version", "Shows the version."))
    rows.append(("  --debug", "Shows the traceback of an error; anywhere on the line."))
    show(rows)


def _report(error: Exception) -> int:
    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.filename}: {error.strerror}"
    elif not isinstance(error, GobiError):
        message = f"unexpected {type(error).__name__}: {message}; run again with --debug to see where"
    print(f"gobi: error: {message}", file=sys.stderr)
    return WRONG_USAGE if isinstance(error, UsageError) else FAILED
