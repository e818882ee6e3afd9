"""A reproducer as the text of a program: the calls, and those functions of the language's template that they need."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.history.document import History
from conformance.report.reproducer.calls import Argument, Call, Language
from conformance.report.reproducer.inexpressible import Inexpressible
from conformance.report.reproducer.judged import judged
from conformance.report.reproducer.steps import calls_of

MISSED: Final = 0.01
"""How seldom all tries of a program may miss what comes back in only some of the replays."""
MOST_TRIES: Final = 20
_CLIENTS: Final[dict[str, Language]] = {"official": "Python", "java": "Java"}
_WIDTH: Final = 110
_HERE: Final = Path(__file__).parent
_CALLED: Final = re.compile(r"(?<!\.)\b(\w+)\(")


@dataclass(frozen=True, slots=True)
class Program:
    """The text of a program, and the name of its file."""

    language: Language
    file: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """What is reproduced: its name, a title, and paragraphs for its reader.

    ``clients``: those that break the rule, if the broker does not: ``official`` (pulsar-client), ``java``, ``go``.
    """

    name: str
    title: str
    explanation: tuple[str, ...]
    history: History
    clients: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a language writes programs. ``function``: the pattern of a function's definition, with its name."""

    template: str
    marker: str
    indent: str
    between: str
    definition: re.Pattern[str]
    end: str
    text: str
    tries: str
    settings: str
    all_settings: str
    setting: str


_FORMS: Final[dict[Language, _Form]] = {
    "Python": _Form(
        template="template.py",
        marker="    pass  # @steps@",
        indent="    ",
        between="\n\n\n",
        definition=re.compile(r"^def (\w+)\(", re.MULTILINE),
        end="",
        text="@text@",
        tries="\nTRIES = 1\n",
        settings="SETTINGS: dict[str, str] = {}",
        all_settings="SETTINGS: dict[str, str] = {{\n{},\n}}",
        setting="    {}: {},\n",
    ),
    "Java": _Form(
        template="Reproducer.java",
        marker="        // @steps@",
        indent="        ",
        between="\n\n    ",
        definition=re.compile(r"^(?:    )?static (?:class (\w+)|(?!final)[\w<>\[\], ]+ (\w+)\()", re.MULTILINE),
        end=";",
        text=" * @text@",
        tries="TRIES = 1;",
        settings="SETTINGS = Map.of()",
        all_settings="SETTINGS = Map.ofEntries(\n{})",
        setting="            Map.entry({}, {}),\n",
    ),
}


def programs(find: Find) -> list[Program]:
    """The programs that reproduce a find, in each language that can.

    Raises:
        HarnessError: none can.
    """
    if find.clients.isdisjoint(_CLIENTS) and find.clients:
        raise Inexpressible(f"the {' or '.join(map(str.capitalize, sorted(find.clients)))} client")
    history = judged(find.history)
    languages: list[Language] = [one for name, one in _CLIENTS.items() if not find.clients or name in find.clients]
    try:
        calls = calls_of(history)
    except Inexpressible:
        calls, languages = calls_of(history, is_exact=True), ["Java"]
    written = [_program(one, find, calls) for one in languages if one == "Python" or _fits_java(calls)]
    if not written:
        raise Inexpressible("a batch that may be a duplicate")
    return written


def _fits_java(calls: Iterable[Call]) -> bool:
    """Whether the Java client sends these batches as they are: it sends a message alone that may be a duplicate."""
    highest: dict[str, int] = {}
    names: dict[str, str] = {}
    for one in calls:
        if one.function == "open_producer":
            names[str(one.arguments[0])] = f"{one.arguments[1]} {one.arguments[2]}"
        if one.function == "send":
            producer = names[str(one.arguments[0])]
            for entry in one.arguments[1:]:
                assert isinstance(entry, Call)
                sent = [int(str(message.arguments[1])) for message in entry.arguments if isinstance(message, Call)]
                if len(sent) > 1 and sent[0] <= highest.get(producer, -1):
                    return False
                highest[producer] = max(highest.get(producer, -1), *sent)
    return True


def _program(language: Language, find: Find, calls: Sequence[Call]) -> Program:
    form = _FORMS[language]
    class_name = _camel(find.name, is_class=True)
    file = f"{find.name.replace('-', '_')}.py" if language == "Python" else f"{class_name}.java"
    steps = "\n".join(_line(one, language) for one in calls)
    template = _HERE.joinpath(form.template).read_text("utf-8").replace(form.marker, steps)
    text = _without_unused(template, form).replace("Reproducer", class_name)
    usage = f"python3 {file}" if language == "Python" else f"java -cp 'pulsar/lib/*' {file}"
    return Program(language, file, _explained(text, language, find, usage))


def _usage(command: str, history: History) -> Iterable[str]:
    yield f"Run it: {command} pulsar://localhost:6650 http://localhost:8080"
    if command.startswith("java"):
        yield "Without the addresses it starts a standalone broker of that release, with the settings below."
    yield "It ends with 1 if the find is there, with 0 if it is not, and with 2 if the steps could not be performed."
    if history.settings:
        yield f"It was found on Pulsar {history.release} with the settings below, so start the broker with them."


def _explained(text: str, language: Language, find: Find, usage: str) -> str:
    """The text with its explanation, the settings of the broker, and the number of tries."""
    form, settings = _FORMS[language], sorted(find.history.settings.items())
    start = form.text.removesuffix("@text@")
    paragraphs = [find.title, *find.explanation, *_usage(usage, find.history)]
    wrapped = "\n\n".join(
        textwrap.fill(one, _WIDTH, break_on_hyphens=False, break_long_words=False) for one in paragraphs
    )
    lines = "\n".join(f"{start}{line}".rstrip() for line in wrapped.splitlines())
    entries = "".join(form.setting.format(_string(name), _string(value)) for name, value in settings)
    text = text.replace(form.text, lines).replace(form.tries, form.tries.replace("1", str(_tries(find.history))))
    return text.replace(form.settings, form.all_settings.format(entries.removesuffix(",\n"))) if settings else text


def _tries(history: History) -> int:
    """How often the steps are performed at most, as the history did not come back in each replay."""
    replays = history.replays
    if replays is None or replays.came_back in (0, replays.tries):
        return 1 if replays is None or replays.came_back else MOST_TRIES
    rate = replays.came_back / replays.tries
    return min(MOST_TRIES, math.ceil(math.log(MISSED) / math.log(1 - rate)))


def _line(one: Call, language: Language) -> str:
    form = _FORMS[language]
    line = f"{form.indent}{_written(one, language)}{form.end}"
    if len(line) <= _WIDTH + 10 or not any(isinstance(part, Call) for part in one.arguments):
        return line
    inner = form.indent + ("    " if language == "Python" else "        ")
    arguments = f",\n{inner}".join(_value(part, language) for part in one.arguments)
    close = f",\n{form.indent})" if language == "Python" else ")"
    return f"{form.indent}{_function(one, language)}(\n{inner}{arguments}{close}{form.end}"


def _written(one: Call, language: Language) -> str:
    arguments = [_value(part, language) for part in one.arguments]
    if language == "Python":
        arguments += [f"{name}={_value(value, language)}" for name, value in one.options.items()]
        return f"{one.function}({', '.join(arguments)})"
    further = "".join(f".{_camel(name)}({_value(value, language)})" for name, value in one.options.items())
    return f"{_camel(one.function)}({', '.join(arguments)}){further}"


def _function(one: Call, language: Language) -> str:
    return one.function if language == "Python" else _camel(one.function)


def _value(value: Argument, language: Language) -> str:
    match value:
        case Call(is_later=True):
            return f"{'lambda: ' if language == 'Python' else '() -> '}{_written(value, language)}"
        case Call():
            return _written(value, language)
        case None:
            return "None" if language == "Python" else "null"
        case bool():
            return str(value) if language == "Python" else str(value).lower()
        case str():
            return _string(value)
        case _:
            return str(value)


def _string(value: str) -> str:
    return json.dumps(value)


def _camel(name: str, *, is_class: bool = False) -> str:
    first, *others = re.split(r"[-_.]", name)
    return "".join([first.capitalize() if is_class else first, *(part.capitalize() for part in others)])


def _without_unused(text: str, form: _Form) -> str:
    """The template without the functions that nothing in it calls."""
    blocks = re.split(re.escape(form.between) + r"(?=\S)", text)
    names = [_defined_in(block, form) for block in blocks]
    kept: list[str] = []
    more = [block for block, name in zip(blocks, names, strict=True) if name in (None, "main", "steps")]
    while more != kept:
        kept = more
        called = {name for block in kept for name in _CALLED.findall(block)}
        more = [block for block, name in zip(blocks, names, strict=True) if name in called or block in kept]
    return _without_unused_imports(form.between.join(kept))


def _defined_in(block: str, form: _Form) -> str | None:
    found = form.definition.search(block)
    return None if found is None else next(filter(None, found.groups()))


def _without_unused_imports(text: str) -> str:
    lines = text.splitlines(keepends=True)
    body = "".join(line for line in lines if not line.startswith(("import ", "from ")))

    def is_used(line: str) -> bool:
        if not line.startswith(("import ", "from ")) or "__future__" in line:
            return True
        return any(re.search(rf"\b{name}\b", body) for name in re.findall(r"\w+", line)[-1:])

    return "".join(filter(is_used, lines))
