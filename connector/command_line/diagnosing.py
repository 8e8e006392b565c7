"""Commands about the health of a job: doctor (findings, and an exit code by their severity), report, metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark_savepoint.api.local_savepoint import open_savepoint
from pyspark_savepoint.api.monitoring import is_label, metrics_of
from pyspark_savepoint.command_line.commands import SEVERITIES, Doctor, Metrics, Report
from pyspark_savepoint.command_line.files import job_at, located
from pyspark_savepoint.command_line.output import Form, Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.wording import worded
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.as_of import Newest, newest_of
from pyspark_savepoint.text.doors import page_in_words
from pyspark_savepoint.text.texts import readable_size, replacing

DONE, FOUND = 0, 1


def doctor(arguments: Doctor, output: Output) -> int:
    """Show what may go wrong with a snapshot."""
    savepoint = open_savepoint(arguments.path, **read_options(arguments))
    job = job_at(arguments.job, arguments) if arguments.job is not None else None
    table = savepoint.inspect.doctor(arguments.budget, since=arguments.since, job=job)
    findings = list(table.rows())
    if not output.is_text:
        output.table(table.schema.names, findings)
    for finding in findings:
        subject = ", ".join(filter(None, (finding["operator"], finding["state"])))
        output.say(f"{finding['severity']:<8} {finding['check']}" + (f": {subject}" if subject else ""))
        output.say(f"    {finding['evidence']}")
        output.say(f"    to do: {finding['remedy']}")
    counts = Counter(finding["severity"] for finding in findings)
    output.say(", ".join(f"{counts[severity]} {severity}s" for severity in SEVERITIES))
    return FOUND if any(counts[one] for one in SEVERITIES[: SEVERITIES.index(arguments.fail_on) + 1]) else DONE


def report(arguments: Report, output: Output) -> int:
    """Write the report about the newest snapshot of a folder, or about one snapshot."""
    options = read_options(arguments)
    newest = newest_of(located(arguments, arguments.path))
    _remarks(newest, output)
    savepoint = open_savepoint(newest.history[-1].path, **options)
    job = job_at(arguments.job, arguments) if arguments.job is not None else None
    with page_in_words(partial(worded, command=output.command)):
        written = savepoint.inspect.report(
            arguments.file,
            folder=arguments.path if len(newest.history) > 1 else None,
            last=arguments.last,
            since=None if arguments.since is None else open_savepoint(arguments.since, **options),
            job=job,
            flink_version=arguments.flink,
            budgets=arguments.budget,
            show_keys=arguments.show_keys,
            old_plan=None if arguments.old_plan is None else Path(arguments.old_plan),
            new_plan=None if arguments.new_plan is None else Path(arguments.new_plan),
        )
    size = Path(written).stat().st_size
    output.say(f"{written}: {readable_size(size)}, about {newest.history[-1].path}")
    output.record({"path": written, "bytes": size, "snapshot": newest.history[-1].path})
    return DONE


def _remarks(newest: Newest, output: Output) -> None:
    for warning in newest.warnings:
        output.remark(f"warning: {warning}")


def metrics(arguments: Metrics, output: Output) -> int:
    """Print numbers about the newest snapshot of a folder, or about one snapshot."""
    if arguments.most < 1:
        raise OptionError("--most must be at least 1", found=arguments.most)
    as_json = output.as_json or arguments.format == "json"
    if as_json and arguments.push_textfile is not None:
        raise UsageError("--push-textfile writes what Prometheus reads", remedy="leave out --format json and --json")
    more = tuple(_constant(text) for text in arguments.label)
    if len(dict(more)) < len(more):
        raise UsageError("--label gives a label twice", found=", ".join(name for name, _ in more))
    newest = newest_of(located(arguments, arguments.path))
    _remarks(newest, output)
    numbers = metrics_of(newest, arguments.most, more, read_options(arguments))
    lines = numbers.to_openmetrics()
    if arguments.push_textfile is not None:
        with replacing(Path(arguments.push_textfile).expanduser()) as pending:
            pending.write_text(lines, encoding="utf-8")
    elif as_json:
        for record in numbers.records():
            replace(output, form=Form.JSON).record(record)
    else:
        replace(output, width=None).say(lines.rstrip("\n"))
    return DONE


def _constant(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not is_label(name):
        raise UsageError(
            "--label takes NAME=VALUE",
            found=repr(text),
            remedy="such as --label job_name=shop, which all series flink_savepoint_* then have",
        )
    return name, value
