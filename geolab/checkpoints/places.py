"""The places of a model's files: a folder, or a server that answers range requests.

Both places answer with documents, with some bytes of a file and its size, and with tensors. `spent`
counts the bytes that they have read. Nothing is written to the disk.

Source: RFC 9110, section 14, for ranges.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from itertools import groupby
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin
from urllib.request import Request, urlopen

import torch
from torch import Tensor

from geolab.checkpoints.header import DTYPES, LONGEST, Stored

Tell = Callable[[str], None]
SLOWEST = 10_000  # bytes per second, after the first `timeout` seconds of an answer


class Folder:
    """The files of a folder."""

    def __init__(self, folder: Path):
        self.folder, self.spent = folder, 0

    def at(self, name: str) -> str:
        return str(self.folder / name)

    def document(self, file: str, tell: Tell) -> bytes | None:
        """A small file whole, or None where there is none."""
        if not os.path.isfile(file):
            return None
        found = Path(file).read_bytes()
        self.spent += len(found)
        return found

    def span(self, file: str, begin: int, end: int) -> tuple[bytes, int]:
        """The bytes from begin to end, and the size of the file."""
        with open(file, "rb") as stream:
            stream.seek(begin)
            found = stream.read(end - begin)
        self.spent += len(found)
        return found, os.path.getsize(file)

    def tensors(self, stored: Mapping[str, Stored]) -> dict[str, Tensor]:
        try:
            from safetensors import SafetensorError, safe_open
        except ImportError as error:
            raise ImportError("a checkpoint on the disk needs safetensors: "
                              'pip install "geolab[checkpoints]"') from error
        found = {}
        for file, group in groupby(sorted(stored, key=lambda name: stored[name].file),
                                   key=lambda name: stored[name].file):
            try:
                with safe_open(file, "pt") as opened:
                    for name in group:
                        found[name] = opened.get_tensor(name)
                        self.spent += stored[name].bytes
            except SafetensorError as error:
                raise ValueError(f"{file} must be a safetensors file: {error}") from error
        return found

    def requests(self, stored: Mapping[str, Stored]) -> int:
        return 0


class Web:
    """The files below a URL.

    Arguments:
        base: a URL that ends with "/".
        timeout: the seconds without a byte after which it gives up.
        token: sent to `base` alone, not to where a server redirects.
    Every method raises FileNotFoundError for a 404, PermissionError for a 401 or 403, TimeoutError
    for a slow server, ConnectionError for one that can't be reached or sends too little, and
    ValueError for one that doesn't send what it was asked for.
    """

    def __init__(self, base: str, timeout: float, token: str | None = None):
        self.base, self.timeout, self.token, self.spent = base, timeout, token, 0
        self.versions: dict[str, tuple] = {}  # file -> its size and tag

    def at(self, name: str) -> str:
        return urljoin(self.base, quote(name))

    def document(self, file: str, tell: Tell) -> bytes | None:
        """A small file whole, or None where there is none."""
        try:
            headers, body = self._answer(file, None, tell)
        except FileNotFoundError:
            return None
        length = headers.get("Content-Length")
        if length is not None and len(body) != int(length):
            raise ConnectionError(f"{file} must have {length} bytes, and {len(body)} came: try "
                                  "again")
        return body

    def span(self, file: str, begin: int, end: int) -> tuple[bytes, int]:
        """The bytes from begin to end, and the size of the file."""
        headers, body = self._answer(file, (begin, end))
        told = headers.get("Content-Range", "")
        span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", told)
        if not span or (int(span[1]), int(span[2]) + 1) != (begin, end):
            raise ValueError(f"{file} must answer with bytes {begin}-{end - 1} of its size, got "
                             f"{told!r}")
        if len(body) != end - begin:
            raise ConnectionError(f"{file} must have {end - begin} bytes from {begin} on, and "
                                  f"{len(body)} came: try again")
        version = (int(span[3]), headers.get("ETag"))
        if self.versions.setdefault(file, version) != version:
            raise ConnectionError(f"{file} changed while it was read, from size and tag "
                                  f"{self.versions[file]} to {version}: try again")
        return body, version[0]

    def tensors(self, stored: Mapping[str, Stored]) -> dict[str, Tensor]:
        found = {}
        for run in _runs(stored):
            first, last = stored[run[0]], stored[run[-1]]
            body, _ = self.span(first.file, first.begin, last.end)
            for name in run:
                one = stored[name]
                own = bytearray(body[one.begin - first.begin:one.end - first.begin])
                found[name] = torch.frombuffer(own, dtype=DTYPES[one.dtype]).reshape(one.shape)
        return found

    def requests(self, stored: Mapping[str, Stored]) -> int:
        return len(_runs(stored))

    def _answer(self, url: str, span: tuple[int, int] | None,
                tell: Tell | None = None) -> tuple[HTTPMessage, bytes]:
        request = Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "geolab"})
        if span:
            request.add_header("Range", f"bytes={span[0]}-{span[1] - 1}")
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urlopen(request, timeout=self.timeout) as answer:
                headers, length = answer.headers, answer.headers.get("Content-Length", "?")
                if span and answer.status != 206:
                    raise ValueError(f"{url} must answer a range request with status 206, got "
                                     f"{answer.status} and all of its {length} bytes: the server "
                                     "has no ranges. Download the file, and give its path")
                if headers.get("Content-Encoding", "identity") != "identity":
                    raise ValueError(f"{url} must come as it is, got the encoding "
                                     f"{headers['Content-Encoding']}")
                if tell:
                    tell(f"{url}: {length} bytes")
                most = span[1] - span[0] if span else LONGEST
                if length.isdecimal() and int(length) > most:
                    raise ValueError(f"{url} must send at most {most} bytes, got {length}")
                return headers, self._body(answer, most, url)
        except HTTPError as error:
            error.close()
            raise _refusal(url, error) from error
        except TimeoutError as error:
            raise self._slow(url) from error
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._slow(url) from error
            raise ConnectionError(f"{url} can't be reached: {error.reason}") from error
        except (HTTPException, OSError) as error:
            raise ConnectionError(f"{url} broke off: {error!r}") from error

    def _body(self, answer, most: int, url: str) -> bytes:
        parts, came, begun = [], 0, time.monotonic()
        while part := answer.read1(1 << 16):
            parts.append(part)
            came += len(part)
            self.spent += len(part)
            if came > most:
                raise ValueError(f"{url} must send at most {most} bytes, and more came")
            if time.monotonic() - begun > self.timeout + came / SLOWEST:
                raise TimeoutError
        return b"".join(parts)

    def _slow(self, url: str) -> TimeoutError:
        return TimeoutError(f"{url} must answer within {self.timeout:g} s, at {SLOWEST} bytes per "
                            "second or more, and didn't: try again, or raise timeout")


def _runs(stored: Mapping[str, Stored]) -> list[list[str]]:
    """Names of tensors whose bytes follow each other in a file."""
    runs: list[list[str]] = []
    for name in sorted(stored, key=lambda name: (stored[name].file, stored[name].begin)):
        one = stored[name]
        before = stored[runs[-1][-1]] if runs else None
        if before and (before.file, before.end) == (one.file, one.begin):
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _refusal(url: str, error: HTTPError) -> OSError:
    if error.code == 404:
        return FileNotFoundError(f"{url} isn't there (status 404)")
    if error.code in (401, 403):
        return PermissionError(f"{url} is refused (status {error.code}): the model isn't public, "
                               "or asks for consent on its page. `hf auth login` logs in")
    return ConnectionError(f"{url} must send bytes, got status {error.code} {error.reason}")
