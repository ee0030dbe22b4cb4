"""Play the lives of exchanges by chance, as long as it takes; see `tests.proxy.machine`.

    python -m tests.fuzz.exchange_machine --steps 1000000 --seed 1
    python -m tests.fuzz.exchange_machine --program 00:00        # one that was found, once more

What is found is printed with the smallest program that finds it, and the exit status is 1.  A core
takes some thousands of steps a second; the process runs at a low priority.
"""

from __future__ import annotations

import argparse
import os
import random
import sys

from tests.proxy.machine.mutations import MUTATIONS, mutated
from tests.proxy.machine.play import Program, explained, run, search, smallest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000, help="to take at least")
    parser.add_argument("--seed", type=int, help="of the chance; by default a new one")
    parser.add_argument("--program", help="one to run, as it was printed")
    parser.add_argument("--mutation", choices=list(MUTATIONS), help="an error to have it find")
    options = parser.parse_args()
    os.nice(10)
    if options.program is not None:
        outcome = run(Program.from_hex(options.program), is_traced=True)
        sys.stdout.write(explained(outcome))
        return 1 if outcome.finding else 0
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    if options.mutation is not None:
        with mutated(options.mutation):
            return _search(seed, options.steps)
    return _search(seed, options.steps)


def _search(seed: int, steps: int) -> int:
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    found, taken = search(random.Random(seed), steps)  # noqa: S311  programs, not secrets
    if found is None:
        sys.stdout.write(f"{taken} steps without a finding\n")
        return 0
    sys.stdout.write(f"a finding after {taken} steps\n")
    sys.stdout.flush()
    least = smallest(found)
    sys.stdout.write(f"--program {least.to_hex()}\n{explained(run(least, is_traced=True))}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
