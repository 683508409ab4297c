"""The commands and their arguments; what they do stands in the modules they import when they run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from adk_stream.cli.outcome import UsageProblem, run_command

if TYPE_CHECKING:
    from adk_stream.cli.agent import Printer

__all__ = ["app"]

app = typer.Typer(
    name="adk-stream",
    help="Shows, aggregates, keeps and replays the streamed output of language models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
sessions = typer.Typer(
    help="The sessions that were stored: list, show, export, delete.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(sessions, name="sessions")

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Provider = Annotated[
    str,
    typer.Option(
        "--provider",
        metavar="LINE",
        help="gemini, gemini-live, openai-chat, openai-responses or anthropic; auto judges by the first events.",
    ),
]
SessionDb = Annotated[
    str | None,
    typer.Option(
        "--session-db",
        metavar="URL",
        help="sqlite:///file.db or its path, or postgresql://…; "
        "without it $ADK_STREAM_SESSION_DB, else a file in the user's data folder.",
    ),
]
SaveAudio = Annotated[
    str | None, typer.Option("--save-audio", metavar="FILE.wav", help="Write the model's voice to this WAV file.")
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where the model is served, e.g. a local server.")
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tool", metavar="MODULE:FUNCTION", help="A function that the model may call; the current folder is searched."
    ),
]
Session = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="Go on with this session; it is made where there is none."),
]
UserId = Annotated[str, typer.Option("--user-id", metavar="ID", help="Whose session it is.")]
Instruction = Annotated[
    str | None, typer.Option("--instruction", metavar="TEXT", help="What the model is told before the conversation.")
]
HideThoughts = Annotated[bool, typer.Option("--hide-thoughts", help="Show no thoughts.")]
AsJson = Annotated[bool, typer.Option("--json", help="Each event as a line of JSON.")]
Partials = Annotated[bool, typer.Option("--partials", help="With --json: partial events too.")]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The session's id.")]
AppName = Annotated[str, typer.Option("--app", help="The application whose sessions they are.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or - for standard input.")]

_APP = "adk-stream"
_USER = "local"


def _printer(as_json: bool, partials: bool, hide_thoughts: bool) -> Printer:
    from adk_stream.cli.agent import JsonLines, Screen

    if partials and not as_json:
        raise UsageProblem("--partials goes with --json")
    thoughts = not hide_thoughts
    return JsonLines(thoughts=thoughts, partials=partials) if as_json else Screen(thoughts=thoughts)


def _end(command: Callable[[], int], debug: bool) -> None:
    raise typer.Exit(run_command(command, debug=debug or bool(os.environ.get("ADK_STREAM_DEBUG"))))


def _print_version(wanted: bool) -> None:
    if wanted:
        from adk_stream import __version__

        typer.echo(f"adk-stream {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A recording, or - for standard input; with --model the prompt (- reads it)."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PROVIDER:NAME", help="Ask this model: gemini:NAME, openai-chat:NAME, …"),
    ] = None,
    base_url: BaseUrl = None,
    provider: Provider = "auto",
    pace: Annotated[
        float, typer.Option("--pace", metavar="FACTOR", help="Multiplies recorded times: 0 at once, 2 half as fast.")
    ] = 1.0,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="Between two events, for files without times.")
    ] = 0.0,
    save_audio: SaveAudio = None,
    tool: Tools = None,
    instruction: Instruction = None,
    session: Session = None,
    user_id: UserId = _USER,
    session_db: SessionDb = None,
    no_session: Annotated[bool, typer.Option("--no-session", help="Store nothing.")] = False,
    hide_thoughts: HideThoughts = False,
    as_json: AsJson = False,
    partials: Partials = False,
    debug: Debug = False,
) -> None:
    """Show a stream live, store it in a session, say how it ended."""

    def command() -> int:
        from adk_stream.cli import run

        if model is not None:
            from adk_stream.cli.agent import AskedAgent

            asked = AskedAgent(
                model, base_url, tool or (), instruction, session, user_id, session_db, stored=not no_session
            )
            printer = _printer(as_json, partials, hide_thoughts)
            return run.run_model(asked, source, printer, save_audio=save_audio)
        model_only = {
            "--base-url": base_url,
            "--tool": tool,
            "--instruction": instruction,
            "--session": session,
            "--hide-thoughts": hide_thoughts,
            "--json": as_json,
            "--partials": partials,
        }
        for option, given in model_only.items():
            if given:
                raise UsageProblem(f"{option} goes with --model")
        store = run.Store(session_db, wanted=not no_session)
        return run.run_recording(source, provider, pace=pace, interval=interval, store=store, save_audio=save_audio)

    _end(command, debug)


@app.command()
def chat(
    model: Annotated[
        str, typer.Option("--model", metavar="PROVIDER:NAME", help="Whom to talk with; live models are gemini:NAME.")
    ],
    live: Annotated[bool, typer.Option("--live", help="By the Live API: as the model speaks.")] = False,
    base_url: BaseUrl = None,
    session: Session = None,
    tool: Tools = None,
    instruction: Instruction = None,
    usage: Annotated[bool, typer.Option("--usage", "-u", help="Tell the tokens of each answer.")] = False,
    hide_thoughts: HideThoughts = False,
    as_json: AsJson = False,
    partials: Partials = False,
    user_id: UserId = _USER,
    microphone: Annotated[bool, typer.Option("--microphone", help="Speak to it (needs the extra voice).")] = False,
    speaker: Annotated[bool, typer.Option("--speaker", help="Hear it (needs the extra voice).")] = False,
    save_audio: SaveAudio = None,
    session_db: SessionDb = None,
    debug: Debug = False,
) -> None:
    """Talk with a model: lines in, its words out; an empty line ends it, Ctrl-C the answer that comes."""

    def command() -> int:
        if live:
            from adk_stream.cli.chat_live import LiveChat, chat_live

            return chat_live(
                LiveChat(
                    model,
                    base_url,
                    session,
                    session_db,
                    tool or (),
                    save_audio,
                    microphone,
                    speaker,
                    instruction,
                    user_id,
                )
            )
        for option, given in {"--microphone": microphone, "--speaker": speaker, "--save-audio": save_audio}.items():
            if given:
                raise UsageProblem(f"{option} goes with --live")
        from adk_stream.cli.agent import AskedAgent
        from adk_stream.cli.chat import chat

        asked = AskedAgent(model, base_url, tool or (), instruction, session, user_id, session_db)
        return chat(asked, _printer(as_json, partials, hide_thoughts), usage=usage)

    _end(command, debug)


@app.command()
def aggregate(
    files: Files,
    provider: Provider = "auto",
    flush: Annotated[
        str, typer.Option("--flush", metavar="WHEN", help="close: one final; boundary: one whenever a run ends.")
    ] = "close",
    partials: Annotated[bool, typer.Option("--partials", help="Partial responses too.")] = False,
    native: Annotated[bool, typer.Option("--native", help="The provider's own final message instead.")] = False,
    debug: Debug = False,
) -> None:
    """Streams to responses, one JSON object a line."""

    def command() -> int:
        from adk_stream.cli.aggregate import aggregate_files

        return aggregate_files(files, provider, flush, partials=partials, native=native)

    _end(command, debug)


@app.command()
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A recording, or - for standard input.")],
    provider: Provider = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    debug: Debug = False,
) -> None:
    """What happened in this stream: parts, timing, where it broke and why."""

    def command() -> int:
        from adk_stream.cli.inspect import inspect

        return inspect(file, provider, as_json)

    _end(command, debug)


@app.command()
def replay(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings.")],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    pace: Annotated[
        float, typer.Option("--pace", metavar="FACTOR", help="Multiplies the recorded times: 0 at once, 1 as recorded.")
    ] = 1.0,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="TEXT", help="What goes wrong with every answer, e.g. drop=3 or stall=2@5."),
    ] = None,
    debug: Debug = False,
) -> None:
    """A local server that answers real clients with recordings, in the provider's own wire."""

    def command() -> int:
        from adk_stream.cli.replay import replay_files

        return replay_files(files, host=host, port=port, pace=pace, faults=fault or [])

    _end(command, debug)


@app.command()
def serve(
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            metavar="[NAME=]PROVIDER:NAME",
            help="A model to serve, by its own name or another; may be given again.",
        ),
    ],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TEXT", help="What clients must bear; without it $ADK_STREAM_TOKEN."),
    ] = None,
    redis: Annotated[
        str | None, typer.Option("--redis", metavar="URL", help="Share running streams with other processes.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option("--cors", metavar="ORIGIN", help="A site whose pages may call the service.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="A name the service may be called by.")
    ] = None,
    max_runs: Annotated[int, typer.Option("--max-runs", min=1, help="Runs at once.")] = 200,
    drain: Annotated[
        float, typer.Option("--drain", metavar="SECONDS", min=0, help="What runs are given to end when it stops.")
    ] = 20.0,
    access_log: Annotated[bool, typer.Option("--access-log", help="A line for each request.")] = False,
    session_db: SessionDb = None,
    debug: Debug = False,
) -> None:
    """The HTTP service: runs, sessions, and the protocols of front ends."""

    def command() -> int:
        from adk_stream.cli.serve import Binding, serve

        return serve(
            model,
            Binding(host, port, token, cors or (), allow_host or ()),
            session_db=session_db,
            redis_url=redis,
            max_runs=max_runs,
            drain_seconds=drain,
            access_log=access_log,
        )

    _end(command, debug)


@sessions.command("list")
def list_sessions(session_db: SessionDb = None, app_name: AppName = _APP, debug: Debug = False) -> None:
    """One line a session: id, when it was updated last, how many events, whose."""

    def command() -> int:
        from adk_stream.cli.sessions import list_sessions

        return list_sessions(session_db, app_name)

    _end(command, debug)


@sessions.command("show")
def show_session(
    session_id: SessionId,
    session_db: SessionDb = None,
    app_name: AppName = _APP,
    as_json: Annotated[bool, typer.Option("--json", help="All of it, as one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """The events of a session, part by part."""

    def command() -> int:
        from adk_stream.cli.sessions import show_session

        return show_session(session_db, app_name, session_id, as_json=as_json)

    _end(command, debug)


@sessions.command("export")
def export_session(
    session_id: SessionId, session_db: SessionDb = None, app_name: AppName = _APP, debug: Debug = False
) -> None:
    """The events of a session, one JSON object a line."""

    def command() -> int:
        from adk_stream.cli.sessions import export_session

        return export_session(session_db, app_name, session_id)

    _end(command, debug)


@sessions.command("delete")
def delete_session(
    session_id: SessionId, session_db: SessionDb = None, app_name: AppName = _APP, debug: Debug = False
) -> None:
    """Delete a session with its events."""

    def command() -> int:
        from adk_stream.cli.sessions import delete_session

        return delete_session(session_db, app_name, session_id)

    _end(command, debug)
