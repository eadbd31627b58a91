"""Find the residual's tensors of a published model, and read no others.

    found = survey("deepseek-ai/DeepSeek-V4-Flash")   # the index and the headers
    checkpoint = read(found)                          # the tensors themselves

A model's file is a header and its tensors, and a sharded model has an index of its files. `survey`
reads these and says how many bytes `read` will take. Both refuse what doesn't fit before they read
on.
"""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin

from torch import Tensor

from geolab.checkpoints.header import DTYPES, Stored, header_length, parse_header
from geolab.checkpoints.names import PARTS, Settings, find_names, settings_of
from geolab.checkpoints.places import Folder, Tell, Web
from geolab.checks import require_number

INDEX, SINGLE, CONFIG = "model.safetensors.index.json", "model.safetensors", "config.json"


class Survey(NamedTuple):
    """The tensors that a model stores of its residual, and the bytes that must be read for them."""

    address: str
    revision: str                      # the commit where a hub tells one, else ""
    whose: str                         # the spelling of the names
    settings: Settings
    sites: dict[str, dict[str, str]]   # site -> part -> name
    stored: dict[str, Stored]          # name -> where it lies
    place: Folder | Web
    spent: int                         # bytes that were read to find all this

    @property
    def bytes(self) -> int:
        """The number of bytes that `read` will read."""
        return sum(one.bytes for one in self.stored.values())


class Checkpoint(NamedTuple):
    """The residual's tensors of a model, in the precision in which they are stored."""

    address: str
    revision: str
    whose: str
    settings: Settings
    sites: dict[str, dict[str, str]]
    tensors: dict[str, Tensor]
    bytes: int                         # all that was read for them

    @property
    def sublayers(self) -> list[str]:
        """"attention 0", "mlp 0", "attention 1", … in the order in which they act."""
        return [site for site in self.sites if site != "head"]

    def part(self, site: str, part: str) -> Tensor:
        """A tensor. Raises: ValueError for a site that the model lacks, or a part not read."""
        if site not in self.sites:
            raise ValueError(f"site must be one of {', '.join(self.sites)}, got {site!r}")
        if part not in self.sites[site]:
            raise ValueError(f"{part} of {site} must have been read: survey(…, fn=True) does so")
        return self.tensors[self.sites[site][part]]


def survey(address: str | Path, fn: bool = False, revision: str = "main", timeout: float = 20.0,
           config: Mapping[str, Any] | None = None, like: str | None = None,
           tell: Tell = print) -> Survey:
    """Find the residual's tensors of a model.

    Arguments:
        address: a folder, a safetensors file, the URL of either, or "owner/name" on the hub (or
            where HF_ENDPOINT says).
        fn: whether to read fn too, which makes a, b and H depend on the token. Without it they are
            those of a zero state.
        revision: a branch, tag or commit of the hub.
        timeout: the seconds after which a silent server is given up.
        config: the content of config.json, where none lies beside the weights.
        like: the model type whose equations hold, where config.json has another name for them.
        tell: gets a line before each download, with its bytes.
    Raises: ValueError for a model without such tensors, with others, or in files that lie;
        FileNotFoundError, PermissionError, TimeoutError or ConnectionError as `Web` says.
    """
    require_number("timeout", timeout, 0, strict=True)
    place, single, commit = _open(str(address), revision, timeout)
    if config is None:
        config = _document(place, place.at(CONFIG), tell)
        if config is None:
            raise FileNotFoundError(f"{place.at(CONFIG)} isn't there: give its content, "
                                    "survey(…, config={…})")
    settings = settings_of(config, like)
    parts = PARTS if fn else tuple(part for part in PARTS if part != "fn")
    index = None if single else _document(place, place.at(INDEX), tell)
    if index is None:
        stored = _single(place, single, tell)
        whose, sites = find_names(stored, settings, parts)
    else:
        files = _files(place, index)
        whose, sites = find_names(files, settings, parts)
        stored = _headers(place, sorted({files[name] for name in _names(sites)}), tell)
        if strayed := [name for name in _names(sites)
                       if name not in stored or stored[name].file != files[name]]:
            raise ValueError(f"{files[strayed[0]]} must hold {strayed[0]}, as {INDEX} says, and "
                             f"doesn't; {len(strayed)} tensors are not where it says")
    for site, found in sites.items():
        for part, name in found.items():
            _require_fits(name, stored[name], settings.shape(site, part))
    return Survey(str(address), commit, whose, settings, sites,
                  {name: stored[name] for name in _names(sites)}, place, place.spent)


def read(found: Survey, tell: Tell = print) -> Checkpoint:
    """Read the tensors that a survey found.

    Raises: ValueError for numbers that aren't finite, and as `survey` does.
    """
    requests = found.place.requests(found.stored)
    tell(f"{len(found.stored)} tensors: {found.bytes} bytes"
         + (f" in {requests} requests" if requests else ""))
    before = found.place.spent
    tensors = found.place.tensors(found.stored)
    if broken := [name for name, tensor in tensors.items() if not tensor.float().isfinite().all()]:
        raise ValueError(f"{broken[0]} of {found.address} must be finite, got NaN or infinity, in "
                         f"{len(broken)} of {len(tensors)} tensors")
    return Checkpoint(found.address, found.revision, found.whose, found.settings, found.sites,
                      {name: tensors[name] for name in found.stored},
                      found.spent + found.place.spent - before)


def _open(address: str, revision: str, timeout: float) -> tuple[Folder | Web, str | None, str]:
    """The place, its one file if the address names a file, and the commit."""
    path = Path(address)
    if path.is_dir():
        return Folder(path), None, ""
    if path.is_file():
        return Folder(path.parent), address, ""
    on_the_web = re.match("https?://", address)
    hub = re.fullmatch(r"[\w.-]+/[\w.-]+", address)
    if not on_the_web and (not hub or address.startswith(".")):
        raise FileNotFoundError(f"address must be a folder or file that is there, a URL, or "
                                f"owner/name on the hub, got {address!r}")
    if hub or "://huggingface.co/" in address and "/resolve/" not in address:
        return _hub("/".join(address.removeprefix("https://huggingface.co/").split("/")[:2]),
                    revision, timeout)
    if address.split("?")[0].endswith(".safetensors"):
        return Web(urljoin(address, "."), timeout), address, ""
    return Web(address.rstrip("/") + "/", timeout), None, ""


def _hub(name: str, revision: str, timeout: float) -> tuple[Web, None, str]:
    try:
        from huggingface_hub import constants, get_token
    except ImportError as error:
        raise ImportError("a name on the hub needs huggingface_hub: pip install "
                          '"geolab[checkpoints]", or give a URL') from error
    web = Web(constants.ENDPOINT + "/", timeout, get_token())
    about = web.at(f"api/models/{name}/revision/") + quote(revision, safe="")
    told = _document(web, about, lambda line: None)
    commit = (told or {}).get("sha")
    if not isinstance(commit, str):
        raise FileNotFoundError(f"{name} must be a folder that is there, or a model of the hub "
                                f"with a revision {revision!r}: {about} names no commit")
    web.base = f"{constants.ENDPOINT}/{name}/resolve/{commit}/"  # later pushes don't matter
    return web, None, commit


def _document(place: Folder | Web, file: str, tell: Tell) -> dict | None:
    text = place.document(file, tell)
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} must be JSON, got {text[:60]!r}…") from error
    if not isinstance(found, dict | None):
        raise ValueError(f"{file} must be a JSON object, got {text[:60]!r}…")
    return found


def _files(place: Folder | Web, index: dict) -> dict[str, str]:
    """name -> file, of an index."""
    names = index.get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ValueError(f"{place.at(INDEX)} must have a weight_map, got {list(index)}")
    for file in set(map(str, names.values())):
        if not re.fullmatch(r"[^/\\]+\.safetensors", file):
            raise ValueError(f"{place.at(INDEX)} must name safetensors files beside it, got "
                             f"{file!r}")
    return {name: place.at(file) for name, file in names.items()}


def _single(place: Folder | Web, file: str | None, tell: Tell) -> dict[str, Stored]:
    """The tensors in the one file of a model."""
    try:
        return _headers(place, [file or place.at(SINGLE)], tell)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{place.at(SINGLE)} must be there, or {INDEX} beside it: give the "
                                "path or URL of a file of another name") from error


def _headers(place: Folder | Web, files: Collection[str], tell: Tell) -> dict[str, Stored]:
    """The tensors in some files."""
    begun = {file: place.span(file, 0, 8) for file in files}
    lengths = {file: header_length(first, size, file) for file, (first, size) in begun.items()}
    tell(f"headers, of {len(files)} file{'s' * (len(files) > 1)}: {sum(lengths.values())} bytes")
    found = {}
    for file, length in lengths.items():
        text, size = place.span(file, 8, 8 + length)
        found |= parse_header(text, size, file)
    return found


def _names(sites: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [name for found in sites.values() for name in found.values()]


def _require_fits(name: str, one: Stored, shape: tuple[int, ...]) -> None:
    if one.dtype not in DTYPES:
        raise ValueError(f"{name} of {one.file} must be of {', '.join(DTYPES)}, got {one.dtype}: "
                         "it is quantised, and its scale isn't known here")
    if one.shape != shape:
        raise ValueError(f"{name} of {one.file} must have shape {shape} by config.json, got "
                         f"{one.shape}")
