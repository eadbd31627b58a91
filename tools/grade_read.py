"""Read what a student handed in, even if it was damaged on the way, and say what was repaired.

What was handed out says which cells there are. Answers are found by the names that the cells had
then, and come back as a sound notebook in the order that the student gave it.
"""

import copy
import json
import unicodedata
from pathlib import Path

import nbformat
from nbformat import NotebookNode

MOST = 30_000_000  # bytes of a file
# the outputs that a teacher's browser may show, and how many characters of each; no script
SHOWN = {"text/plain": 20_000, "image/png": 2_000_000}


class Unreadable(Exception):
    """A submission that nobody can grade. The argument says why, to the teacher."""


def read(folder: Path, handed: NotebookNode, name: str) -> tuple[NotebookNode, list[str]]:
    """The notebook in a student's folder, and what was repaired.

    Arguments:
        folder: what the student handed in.
        handed: the notebook that the students got.
        name: of the session, which its file should have.

    Raises: Unreadable.
    """
    path, notes = found(folder, name)
    text, more = decoded(path)
    cells = cells_of(text)
    sound, repaired = matched(cells, handed)
    return sound, notes + more + repaired


def found(folder: Path, name: str) -> tuple[Path, list[str]]:
    """The file: the one of the right name, or else the only notebook."""
    if not folder.is_dir():
        raise Unreadable("it must be a folder with a notebook, and is a file")
    there = sorted(folder.iterdir())
    files = [path for path in there if path.is_file() and not path.is_symlink()]
    path = folder / f"{name}.ipynb"
    others = [other for other in files if other.suffix == ".ipynb" and other != path]
    if path in files:
        return path, [f"{other.name!r} beside it was not read" for other in others]
    if len(others) == 1:
        return others[0], [f"its name was {others[0].name!r}"]
    names = ", ".join(repr(path.name) for path in there[:5]) or "nothing"
    raise Unreadable(f"it must hold one notebook, such as {name}.ipynb, and holds {names}")


def composed(text: str) -> str:
    """A text whose accents are part of their letters. Some systems write file names otherwise."""
    return unicodedata.normalize("NFC", text)


def decoded(path: Path) -> tuple[str, list[str]]:
    """The text of a file, in whichever encoding it is."""
    if path.stat().st_size > MOST:
        raise Unreadable(f"{path.name} has {path.stat().st_size / 1e6:.0f} MB")
    data = path.read_bytes()
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"  # what an editor under Windows writes
        text = data.decode(encoding, errors="replace")
    return text, [] if encoding == "utf-8" else [f"it was in {encoding}"]


def cells_of(text: str) -> list[dict]:
    """The cells of a notebook of format 3 or 4: kind, source, outputs, and the name of a cell."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no JSON: {error}"[:120]) from None
    sheets = data.get("worksheets") if isinstance(data, dict) else None
    first = sheets[0] if isinstance(sheets, list) and sheets else data
    cells = first.get("cells") if isinstance(first, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("it is no notebook: it has no list of cells")
    return [cell_of(place, cell) for place, cell in enumerate(cells)]


def cell_of(place: int, cell: object) -> dict:
    if not isinstance(cell, dict):
        raise Unreadable(f"its cell {place} is no cell")
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise Unreadable(f"its cell {place} has no text")
    source = writable(source)
    notes = cell.get("metadata")
    notes = notes.get("nbgrader") if isinstance(notes, dict) else None
    name = notes.get("grade_id") if isinstance(notes, dict) else None
    outputs = cell.get("outputs")
    return {"code": cell.get("cell_type") == "code", "source": source,
            "name": name if isinstance(name, str) else "",
            "outputs": outputs if isinstance(outputs, list) else []}


def matched(cells: list[dict], handed: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The sound notebook of a student's cells.

    Of two cells of one name the first counts that isn't as it was handed out. A locked cell is as
    it was, and what is missing comes behind.
    """
    known = {grade_id(cell): cell for cell in handed.cells if grade_id(cell)}
    if not any(cell["name"] in known for cell in cells):
        raise Unreadable("it is another notebook: it has no cell of this session's")
    chosen, notes = {}, []
    for place, cell in enumerate(cells):
        if cell["name"] not in known:
            continue
        before = chosen.get(cell["name"])
        if before is None or (blank(cells[before], known) and not blank(cell, known)):
            chosen[cell["name"]] = place
    copies = sorted({cell["name"] for place, cell in enumerate(cells)
                     if cell["name"] in known and chosen[cell["name"]] != place})
    notes += [f"{name} was there more than once" for name in copies]
    made = []
    for place, cell in enumerate(cells):
        if chosen.get(cell["name"]) == place:
            original = known[cell["name"]]
            new = copy.deepcopy(original)
            if not original.metadata.nbgrader.locked:
                new.source = cell["source"]
                if new.cell_type == "code":
                    new.outputs = shown(cell["outputs"])
            elif cell["source"].strip() != original.source.strip():
                notes.append(f"{cell['name']} was changed")
        else:
            make = nbformat.v4.new_code_cell if cell["code"] else nbformat.v4.new_markdown_cell
            new = make(cell["source"])
        made.append(new)
    gone = [name for name in known if name not in chosen]
    notes += [f"{name} was gone" for name in gone]
    made += [copy.deepcopy(known[name]) for name in gone]
    for place, cell in enumerate(made):
        cell.id = f"cell-{place:03}"
    return nbformat.v4.new_notebook(cells=made, metadata=copy.deepcopy(handed.metadata)), notes


def grade_id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def blank(cell: dict, known: dict[str, NotebookNode]) -> bool:
    """Return whether a cell is as it was handed out."""
    return cell["source"].strip() == known[cell["name"]].source.strip()


def shown(outputs: list) -> list[NotebookNode]:
    """The outputs that a cell had, as text and pictures alone."""
    made = []
    for output in outputs:
        if not isinstance(output, dict):
            continue
        data = output.get("data") if isinstance(output.get("data"), dict) else {}
        data = {kind: kept for kind, most in SHOWN.items()
                if (kept := joined(data.get(kind), most))}
        text = joined(output.get("text")) or joined(output.get("evalue"))
        if text:
            made.append(nbformat.v4.new_output("stream", name="stdout", text=text))
        elif data:
            made.append(nbformat.v4.new_output("display_data", data=data))
    return made


def joined(text: object, most: int = SHOWN["text/plain"]) -> str:
    """A text, which may come in lines. What is longer than `most` is left out."""
    if isinstance(text, list):
        text = "".join(part for part in text if isinstance(part, str))
    return writable(text) if isinstance(text, str) and len(text) <= most else ""


def writable(text: str) -> str:
    """A text with a question mark for each half of a character, which no file can hold."""
    return text.encode(errors="replace").decode()
