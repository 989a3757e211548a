"""The command line. Exit codes: 0 all runs are fine, 1 the table is written and some runs failed, 2 there is no table."""

import argparse
import shutil
import sys
from pathlib import Path

from .ship import BadInput


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def arguments() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(prog="framewright_ray", description="Runs a sweep of framewright on a Ray cluster.")
    parser.add_argument("plan", metavar="PLAN.toml", type=Path, help="the plan")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True,
                        help="the table, on this computer: OUT.csv or OUT.parquet")
    parser.add_argument("--shards", metavar="N", type=positive,
                        help="tasks into which the runs are divided [default: 4 for each CPU of the cluster]")
    parser.add_argument("--sample", metavar="N", type=positive, help="only N runs, evenly distributed over the plan")
    parser.add_argument("--program", metavar="PATH", type=Path,
                        help="the program, which is copied to the nodes [default: framewright in PATH]")
    parser.add_argument("--address", metavar="ADDRESS",
                        help="the cluster [default: RAY_ADDRESS, or that of this computer, or a new one on this computer]")
    return parser


def main() -> int:
    """Runs the command."""
    args = arguments().parse_args()
    found = args.program or shutil.which("framewright")
    try:
        if found is None:
            raise BadInput("there is no framewright in PATH: name the program with --program")
        # Ray takes seconds to load: bad arguments are reported without it.
        from .sweep import MOST_SHARDS, Sweep
        if args.shards and args.shards > MOST_SHARDS:
            raise BadInput(f"--shards {args.shards}: at most {MOST_SHARDS}")
        sweep = Sweep(args.plan, args.output.absolute(), Path(found).absolute(), args.sample, args.shards)
        return sweep.run(args.address)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command continues", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
