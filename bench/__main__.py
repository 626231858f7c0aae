"""``python -m bench NAME [--json] [--short]``: run one benchmark; without a name, list them.

A benchmark is a module of this folder with a function ``run(short: bool) -> Report``. It prints a ratio measured in one
run on the machine at hand, then the absolute figures.
"""

import argparse
import asyncio
import importlib
import inspect
import json
import pkgutil
import sys

import bench
from bench.report import Report

NOT_BENCHMARKS = frozenset({"agent_site", "bare", "report", "runner", "site", "__main__"})


def names() -> list[str]:
    """Every benchmark's name, as it is given on the command line."""
    return sorted(
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules(bench.__path__)
        if module.name not in NOT_BENCHMARKS
    )


def run(name: str, *, short: bool) -> Report:
    """Run the benchmark ``name``; its report."""
    module = importlib.import_module(f"bench.{name.replace('-', '_')}")
    outcome = module.run(short=short)
    report = asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome
    if not isinstance(report, Report):
        raise TypeError(f"benchmark {name} returned {type(report).__name__}, not a Report")
    return report


def main(argv: list[str]) -> int:
    """Exit code 0 when every goal was met, 1 when one was missed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks; each prints a ratio.")
    parser.add_argument("name", nargs="?", help="one of: " + ", ".join(names()))
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--short", action="store_true", help="the short form that continuous integration runs")
    arguments = parser.parse_args(argv)
    if arguments.name is None:
        print("\n".join(names()))
        return 0
    if arguments.name not in names():
        print(f"no benchmark {arguments.name!r}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    report = run(arguments.name, short=arguments.short)
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report)
    return 0 if report.goals_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
