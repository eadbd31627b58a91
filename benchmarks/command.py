"""Common parts of the commands: their output file, their device, and rounding."""

import argparse
from pathlib import Path

import torch

from geolab import kernels


def add_output(parser: argparse.ArgumentParser) -> None:
    """Give a command the options --out and --force."""
    parser.add_argument("--out", type=Path,
                        help="the JSON file to write; it also says where and by what versions it "
                             "was measured")
    parser.add_argument("--force", metavar="REASON", default="",
                        help="replace the file; the new file keeps the reason")


def check_output(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Stop the command if --out exists already and --force gives no reason to replace it."""
    if given.out and given.out.exists() and not given.force:
        parser.error(f"--out must be a new file, got {given.out}, which exists; "
                     "--force REASON replaces it")


def require_cuda(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Stop the command if there is no CUDA device with Triton; `otherwise` says what works without
    one.
    """
    if not torch.cuda.is_available():
        parser.error(f"this needs a CUDA device with Triton: PyTorch sees none; {otherwise}")
    if not kernels.TWINS:
        parser.error("this needs a CUDA device with Triton: Triton isn't installed")


def rounded(number: float) -> float:
    """The number with four significant digits, as the files hold it."""
    return float(f"{number:.4g}")
