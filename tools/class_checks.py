# The checks below compare scrambled answers, so that no right answer stands in this notebook.
def class_checks():
    """The checks, with names of their own: a cell may rebind `round` or `len`, or import all of
    NumPy over them.
    """
    import hashlib
    import math
    from builtins import any, enumerate, exec, float, hasattr, isinstance, len, list, print, range
    from builtins import NotImplementedError, round, str, tuple

    def scrambled(name, place, word):
        """A hash of one entry of an answer, slow on purpose: thinking is quicker than guessing."""
        text = f"{name} {place} {word}".encode()
        return hashlib.pbkdf2_hmac("sha256", text, b"geolab", 4_000).hex()[:12]

    def spellings(entry, step):
        """Return an entry's spellings: a letter, or a number in steps with its neighbours."""
        if isinstance(entry, str):
            return [entry.strip().lower()]
        number = float(entry) / step
        return [round(number) + k for k in (0, -1, 1)] if math.isfinite(number) else []

    def check_answer(name, answer, steps, stored, hint):
        """Raise an AssertionError for a wrong answer, and only say so for one that is missing.

        Entries are compared to about a step, and only counted if no right ones are stored.
        """
        if answer is ...:
            return print(f"{name} has no answer yet.")
        answer = answer.tolist() if hasattr(answer, "tolist") else answer
        entries = list(answer) if isinstance(answer, (list, tuple)) else [answer]
        wanted = len(steps)
        assert len(entries) == wanted, f"{name} needs {wanted} entries, not {len(entries)}."
        if any(entry is ... or entry == "" for entry in entries):
            return print(f"{name} isn't complete yet.")
        if stored is None:
            return print(f"{name} has all its entries. Your teacher grades them.")
        right = 0
        for place, entry in enumerate(entries):
            found = [scrambled(name, place, word) for word in spellings(entry, steps[place])]
            right += stored[place] in found
        some = f" {right} of {len(entries)} are." * (len(entries) > 1)
        assert right == len(entries), f"{name} isn't right yet.{some} {hint}"
        print(f"{name} is right.")

    def check_code(name, answer, test):
        """Raise an AssertionError unless the answer, such as a function, passes on all draws."""
        if answer is ...:
            return print(f"{name} has no answer yet.")
        try:
            for seed in range(20):
                exec(test, {name: answer, "seed": seed})
        except NotImplementedError as missing:
            return print(missing)
        print(f"{name} is right.")

    return scrambled, spellings, check_answer, check_code


scrambled, spellings, check_answer, check_code = class_checks()
