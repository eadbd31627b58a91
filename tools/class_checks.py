# The checks below compare scrambled answers, so that no right answer stands in this notebook.
def class_checks():
    """The checks, with names of their own: a cell may rebind `round` or `len`, or import all of
    NumPy over them.
    """
    import hashlib
    from builtins import AssertionError, Exception, NotImplementedError, OverflowError
    from builtins import RuntimeError, TypeError, ValueError, any, callable, compile, enumerate
    from builtins import exec, float, hasattr, int, isinstance, len, list, map, print, range, repr
    from builtins import round, str, tuple, type, zip

    def scrambled(name, place, word):
        """A hash of one entry of an answer, slow on purpose: thinking is quicker than guessing."""
        text = f"{name} {place} {word}".encode()
        return hashlib.pbkdf2_hmac("sha256", text, b"geolab", 4_000).hex()[:12]

    def spellings(entry, step):
        """Return an entry's spellings: a letter, or a number in steps with its neighbours. A
        letter has no step. What is neither has none.
        """
        if step is None:
            return [entry.strip(" .()").lower()] if isinstance(entry, str) else []
        try:
            return [round(float(entry) / step) + k for k in (0, -1, 1)]
        except (TypeError, ValueError, OverflowError):
            return []

    def listed(answer):
        """An answer as lists of lists, without arrays and tuples."""
        answer = answer.tolist() if hasattr(answer, "tolist") else answer
        return list(map(listed, answer)) if isinstance(answer, (list, tuple)) else answer

    def entries(answer):
        """The entries of an answer, whatever lists, tuples and arrays hold them."""
        answer = listed(answer)
        if not isinstance(answer, list):
            return [answer]
        return [entry for part in answer for entry in entries(part)]

    def check_answer(name, answer, steps, stored, hint):
        """Raise an AssertionError for a wrong answer, and only say so for one that is missing.

        Entries are compared to about a step, and only counted if no right ones are stored.
        """
        if answer is ...:
            return print(f"{name} has no answer yet.")
        found, wanted = entries(answer), len(steps)
        if len(found) != wanted:
            comma = " A number has a point and no comma." * (len(found) > wanted)
            raise AssertionError(f"{name} needs {wanted} entries, not {len(found)}.{comma}")
        if any(entry is ... or isinstance(entry, str) and not entry.strip() for entry in found):
            return print(f"{name} isn't complete yet.")
        spelled = [spellings(entry, step) for entry, step in zip(found, steps, strict=True)]
        for entry, step, known in zip(found, steps, spelled, strict=True):
            if not known:
                kind = 'a letter, as "a"' if step is None else "a number, as 0.5"
                raise AssertionError(f"{name}: an entry must be {kind}, not {repr(entry)[:60]}.")
        if stored is None:
            return print(f"{name} has all its entries. Your teacher grades them.")
        right = 0
        for place, known in enumerate(spelled):
            right += stored[place] in [scrambled(name, place, word) for word in known]
        if right < wanted:
            some = f" {right} of {wanted} are." * (wanted > 1)
            raise AssertionError(f"{name} isn't right yet.{some} {hint}")
        print(f"{name} is right.")

    def result(value):
        """What a function has returned: numbers, arrays in float64 without axes of length one, or
        a list of these.
        """
        if isinstance(value, (int, float)):
            return value
        import torch

        try:
            made = torch.tensor(listed(value), dtype=torch.float64).squeeze()
        except (TypeError, ValueError, RuntimeError):  # of another kind, or a list of two shapes
            if not isinstance(value, (list, tuple)):
                said = repr(value)[:60]
                raise AssertionError(f"it must be made of numbers, not {said}") from None
            return list(map(result, value))
        if not made.numel():  # nothing is near to anything
            raise AssertionError("it is empty")
        return made if made.dim() else made.item()

    def passes(name, answer, test, seeds):
        """Raise an error unless the answer, such as a function, passes a test on all seeds."""
        def given(*inputs):  # which a function may write into
            return result(answer(*[one.clone() if hasattr(one, "clone") else one
                                   for one in inputs]))

        code = compile(test, name, "exec", optimize=0)  # with its asserts, however Python runs
        for seed in seeds:
            exec(code, {name: given if callable(answer) else result(answer), "seed": seed})

    def check_code(name, answer, test):
        """Raise an AssertionError unless the answer, such as a function, passes on all draws."""
        if answer is ...:
            return print(f"{name} has no answer yet.")
        try:
            passes(name, answer, test, range(20))
        except NotImplementedError as missing:
            return print(missing)
        except Exception as error:
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            raise AssertionError(f"{name} isn't right yet. {kind}{error}".strip()) from error
        print(f"{name} is right.")

    return scrambled, spellings, entries, passes, check_answer, check_code


scrambled, spellings, entries, passes, check_answer, check_code = class_checks()
