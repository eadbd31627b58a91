"""What a table of times must have: a spread in every row, and a contender that meets itself."""

TIMES = {"us", "ms", "ratio", "seconds", "tokens_per_second"}
SPREADS = {"us_low", "us_deciles", "ms_deciles", "ratio_deciles", "half width", "spread"}


def lacks(found: dict) -> list[str]:
    """What a benchmark's file lacks, in words: nothing, if its clock is honest.

    A row that failed has no time, and needs no spread. A contender that meets itself is a row whose
    name ends in "again", or an entry "again" or "ours again" of a row.
    """
    timed = [row for row in found.get("rows", found.get("times", ())) if TIMES & row.keys()]
    missing = [f"no spread: {row}" for row in timed if not SPREADS & row.keys()]
    again = any(str(name).endswith("again") for row in timed for name in (
        *row, *row.get("seconds", ()), *row.values()))
    # a profile times its step as a whole
    return missing + ([] if again or not timed or "again" in found else ["nothing meets itself"])
