"""Command lines from config dataclasses: one sentence and an exit status, never a stack trace."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

Config = TypeVar("Config")


class RunFailed(Exception):
    """A run that began well and failed; the sentence is for the user (exit 1)."""


def run_cli(
    main: Callable[[Config], int], config_type: type[Config], *, prog: str, description: str
) -> NoReturn:
    """Parse the command line into ``config_type``, run ``main`` and exit with its status.

    A ValueError (a wrong field, a wrong record) is one line and exit 2, RunFailed and
    OSError one line and exit 1, Ctrl-C exit 130. Notes and warnings of the package's
    loggers go to stderr, a line each.
    """
    status: int
    try:
        config = parse(config_type, sys.argv[1:], prog=prog, description=description)
        log_to_stderr()
        status = main(config)
    except ValueError as error:
        status = _complain(prog, error, 2)
    except RunFailed as error:
        status = _complain(prog, error, 1)
    except BrokenPipeError:
        status = 1
    except OSError as error:
        status = _complain(prog, os_error_sentence(error), 1)
    except KeyboardInterrupt:
        status = _complain(prog, "interrupted", 130)
    sys.exit(status)


def parse(config_type: type[Config], arguments: list[str], *, prog: str, description: str) -> Config:
    """The config that ``arguments`` describe; --help prints and exits with 0.

    Errors: ValueError, in one sentence, for an unknown flag, for a value that cannot be
    read, and for what the config's own check says.
    """
    import tyro

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(config_type, args=arguments, prog=prog, description=description)
    except SystemExit as exit_:
        if not exit_.code:
            raise
    raise ValueError(_sentence_of_box(said.getvalue(), config_type.__name__))


def _sentence_of_box(box: str, config_name: str) -> str:
    """What tyro says in a box over several lines, as one sentence."""
    lines = [line.strip("│╭╮╰╯ ").strip() for line in box.splitlines()]
    rules = [number for number, line in enumerate(lines) if line and not line.strip("─")]
    body = lines[1 : rules[0]] if rules else lines[1:]
    words = " ".join(line for line in body if line).removeprefix(f"Error parsing {config_name}:")
    words = words.split("Got errors:")[0].strip()
    meant = next((line.split()[0].rstrip(",") for line in lines if line.startswith("--")), None)
    if meant and words.startswith("Unrecognized"):
        words += f"; perhaps {meant} was meant"
    return words or "the command line could not be read; see --help"


def log_to_stderr() -> None:
    """Send the notes of loaders, training and tools to stderr, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for package in ("loaders", "training", "tools"):
        logger = logging.getLogger(package)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


def os_error_sentence(error: OSError) -> str:
    """What happened to which file, without Python's error number."""
    words = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        words = "the disk is full"
    return f"{error.filename}: {words}" if error.filename else words


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "warning: " if record.levelno >= logging.WARNING else ""
        return f"{prefix}{record.getMessage()}"


def _complain(prog: str, error: object, status: int) -> int:
    print(f"{prog}: error: {str(error).strip()}", file=sys.stderr)
    return status
