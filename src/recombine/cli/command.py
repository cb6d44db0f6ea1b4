"""What all commands share: --plugin, errors with exit codes, and clean output.

```python
@command
def train(…, as_json: Json = False) -> None: ...

def register(app): app.command()(train)
```
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from recombine.cli import output

Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", help="FILE.py or module that registers custom kinds; its code is executed. Can be repeated."
    ),
]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator that adds --plugin and runs the command inside `reported` and, with --json, `output.only_json`."""
    signature = inspect.signature(function, eval_str=True)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)

    @functools.wraps(function)
    def run(*args: Any, plugin: list[str] | None = None, **given: Any) -> None:
        as_json = given.get("as_json", False)
        with output.only_json(as_json), reported(as_json), _plugin_warnings_as_notes():
            load(plugin or [])
            function(*args, **given)

    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def load(sources: list[str]) -> None:
    """Load the installed plug-ins and the given ones."""
    from recombine.core import plugins

    plugins.load_installed()
    for source in sources:
        plugins.use(source)


@contextlib.contextmanager
def _plugin_warnings_as_notes() -> Iterator[None]:
    """Print each warning about plug-ins once, as a note on standard error. Other warnings are left unchanged."""
    from recombine.core.plugins import PluginWarning

    with warnings.catch_warnings():
        others, told = warnings.showwarning, set[str]()
        warnings.simplefilter("always", PluginWarning)

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if not issubclass(category, PluginWarning):
                others(message, category, *rest)
            elif str(message) not in told:
                told.add(str(message))
                output.say(f"note: {message}", err=True)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextlib.contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Turn the errors that recombine raises deliberately into a message and an exit code."""
    from recombine.core.errors import RecombineError

    try:
        yield
    except RecombineError as error:
        message, code = str(error), error.exit_code
    except (MemoryError, RuntimeError) as error:
        from recombine.core.memory import ran_out_of_memory

        if not ran_out_of_memory(error):
            raise
        message, code = f"Out of memory. Reduce the size of the task, the network or the batch. ({error})", 2
    except OSError as error:  # a file or folder without permission
        if error.filename is None:
            raise
        message, code = (
            f"Cannot use {error.filename}: {error.strerror}. Check its permissions or choose another path.",
            2,
        )
    else:
        return
    output.say(f"error: {message}", err=True)
    if as_json:
        output.show_json({"error": message})
    raise typer.Exit(code)


def run_app(app: typer.Typer) -> None:
    """Run the application. Exit codes: 2 for bad usage or input, 1 for other failures, 130 for Ctrl-C."""
    _open_closed_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
            output.close_after_json()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # the pipe was closed, or the device is full
        with contextlib.suppress(OSError):
            print(f"error: cannot write to standard output: {error.strerror}.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise the interpreter's final flush fails again
        sys.exit(1)


def _open_closed_streams() -> None:
    """Replace standard streams that the caller closed (`>&-`), so that no file of the store gets their descriptors.

    Writing to the replacement of standard output fails, as writing to a closed descriptor does. Messages are discarded.
    """
    for descriptor, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, flags)
            if handle != descriptor:
                os.dup2(handle, descriptor)
                os.close(handle)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))
