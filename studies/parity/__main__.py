"""python -m studies.parity: the table of parity."""

from studies.parity.table import text

if __name__ == "__main__":
    print(text())
