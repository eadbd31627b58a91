"""python -m studies.papers.parity: the table of parity."""

from studies.papers.parity.table import text

if __name__ == "__main__":
    print(text())
