"""The figures of Going further that belong to chapter 22: ports, and threads."""

from IPython.display import HTML

from geolab.show.figures import ACCENT, SECOND, show, subplots
from geolab.show.schematic import BOXED, CENTRE, OPERATOR, arrow, canvas
from studies.engine import results

WHICH = {"read": ("stream_read", "_read"), "mix and write": ("stream_mix_write", "_mix"),
         "mix and write, back": ("stream_mix_write", "_mix_backward"),
         "generator": ("rms_linear", "_forward"), "generator, back": ("rms_linear", "_backward"),
         "forward 1": ("stream_join", "_forward"), "backward 2": ("stream_join", "_backward")}
COMPILED = {(row["operator"], row["kernel"]): row
            for row in results.read(results.FOLDER / "assembly.json")["rows"] if row["d"] == 4096}
BUILT = {name: COMPILED[key] for name, key in WHICH.items()}


def threads_at_once(row: dict) -> int:
    """The threads of a kernel for which a multiprocessor has room."""
    return 32 * row["warps"] * row["resident"]


def ports() -> HTML:
    """How the gradient of u reaches the last phase, by autograd and through ports."""
    figure, axes = canvas(2.7)
    for y, name in ((4.75, "autograd alone"), (2.0, "with ports")):
        axes.text(0.15, y, name, va="center", weight="bold")
    for y in (3.6, 0.85):
        axes.text(1.45, y, "backward of\nthe read", **BOXED)
        axes.text(8.9, y, "backward 2", **OPERATOR)
    axes.text(5.45, 3.6, "add", **BOXED)
    for start, end, wide in (((2.5, 3.6), (4.95, 3.6), 3), ((5.95, 3.6), (8.0, 3.6), 3),
                             ((5.45, 4.7), (5.45, 4.0), 3), ((8.9, 1.95), (8.9, 1.25), 3),
                             ((2.5, 1.0), (8.0, 1.0), 0.9), ((2.5, 0.7), (8.0, 0.7), 0.9)):
        arrow(axes, start, end, linewidth=wide)
    for x, y, words in ((3.7, 4.05, r"$a\,\bar u^T$: 4"), (6.95, 4.05, "sum: 4"),
                        (5.45, 4.95, "$L$: 4"), (8.9, 2.2, "$L$: 4"),
                        (5.25, 1.35, "a: a few numbers"),
                        (5.25, 0.35, r"$\bar u$: in memory already")):
        axes.text(x, y, words, fontsize=10, **CENTRE)
    return show(
        figure,
        "Above: the backward pass of the read writes a product of four vectors, an addition reads "
        "it and L, four vectors each, and writes their sum, which backward 2 reads. Below: the "
        "factors a and the gradient of u go to backward 2 directly, and L too.",
        caption="How the gradient of u reaches the last phase, at four streams. A thick arrow is "
                "four vectors, written and read. Above, 4 are written for the product, and 12 "
                "move for the addition. Below, none of them.")


def threads() -> HTML:
    """The threads of each kernel that run at once on a multiprocessor."""
    figure, axes = subplots(height=3.2)
    for y, row in enumerate(BUILT.values()):
        count = threads_at_once(row)
        axes.barh(-y, count, height=0.6,
                  color=SECOND if row["operator"] == "stream_join" else ACCENT)
        axes.text(count + 25, -y, f"{count}, {row['registers']} registers", va="center",
                  fontsize=10)
    axes.set(yticks=[-y for y in range(len(BUILT))], yticklabels=list(BUILT), xlim=(0, 3600),
             xticks=[0, 512, 1024, 2048], xlabel="threads at once (2048 have room)")
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "Threads of each kernel that fit on a multiprocessor at once. The read fills it with "
        "2048. Both joined kernels have 256 threads.",
        caption="From the compiler's machine code for Hopper, four streams of 4096 features in "
                "bfloat16. Beside a bar: its threads, and the registers of each. Orange: the "
                "joined phases.")
