"""The two bumps of chapter 17 and its figures.

The data x₀ come from a bump at −1 or 1, and noise is mixed in until time t:

    x_t = a_t x₀ + s_t ε ,   a_t = cos(π t / 2) ,   s_t = sin(π t / 2)

`flow` is exact: a point keeps the share of the law that lies below it (Going further proves it).
"""

import math

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from geolab.show.figures import ACCENT, QUIET, SECOND, show, subplots
from geolab.show.schematic import BOXED, OPERATOR, TINT, arrow, canvas
from geolab.tasks import Denoising

TASK = Denoising(modes=2, spread=0.25)
GRID = torch.linspace(-10, 10, 501, dtype=torch.float64)
STEP = 0.04                                # of GRID
INNER = GRID.abs() < 3                     # where GRID holds all of the law after a step back
TOP = 0.8                                  # the time from which the first figures go back
LOW, HIGH = -2.0, 2.0
BUMP = np.linspace(LOW, HIGH, 41)
HEIGHT = sum(np.exp(-(BUMP - m) ** 2 / 2 / TASK.spread**2) for m in (-1, 1))
FROM_NOISE = "time, from noise (left) to data (right)"


def width(t: float | Tensor, task: Denoising = TASK) -> Tensor:
    """σ_t, the standard deviation of a bump at time t."""
    a, s = task.scales(t)
    return (a**2 * task.spread**2 + s**2).sqrt()


def normal(x: Tensor, deviation: float | Tensor) -> Tensor:
    """The density of a Gaussian of mean 0."""
    return torch.exp(-(x / deviation) ** 2 / 2) / deviation / (2 * math.pi) ** 0.5


def density(x: Tensor, t: float | Tensor, task: Denoising = TASK) -> Tensor:
    """The density of x_t."""
    shift = task.scales(t)[0] * task.radius
    return (normal(x - shift, width(t, task)) + normal(x + shift, width(t, task))) / 2


def kernel(t: float | Tensor, u: float | Tensor, task: Denoising = TASK) -> Tensor:
    """p(x_u = y | x_t = x) by Bayes' rule, from densities alone: (x, y), both on GRID."""
    (a_t, s_t), (a_u, s_u) = task.scales(t), task.scales(u)
    noise = (s_t**2 - (a_t / a_u * s_u) ** 2).sqrt()
    joint = density(GRID, u, task) * normal(GRID[:, None] - a_t / a_u * GRID, noise)
    return joint / joint.sum(1, keepdim=True) / STEP


def guess(x: Tensor, t: float, u: float = 0.0, task: Denoising = TASK) -> Tensor:
    """E[x_u | x_t = x] of the library, whose bumps lie in the plane: (N,) -> (N,)."""
    return task.posterior_mean(torch.stack([x, 0 * x], -1), t, u)[:, 0]


def share(x: Tensor, t: float | Tensor, task: Denoising = TASK) -> Tensor:
    """The share of the law of x_t below x."""
    shift = task.scales(t)[0] * task.radius
    z = torch.stack([x - shift, x + shift]) / width(t, task)
    return torch.special.ndtr(z).mean(0)


def flow(x: Tensor, t: float | Tensor, u: float | Tensor, task: Denoising = TASK) -> Tensor:
    """The point at time u with the same share below it, by bisection."""
    rank = share(x, t, task)
    low, high = torch.full_like(x, -8.0), torch.full_like(x, 8.0)
    for _ in range(50):
        middle = (low + high) / 2
        below = share(middle, u, task) < rank
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def solve(x: Tensor, t: float, u: float, steps: int = 100, task: Denoising = TASK) -> Tensor:
    """The flow by fourth-order Runge-Kutta steps along its velocity."""
    def velocity(x: Tensor, t: float) -> Tensor:
        a, s = task.scales(t)
        return math.pi / 2 * (a * x - guess(x, t, 0.0, task)) / s
    d = (u - t) / steps
    for now in t + d * np.arange(steps):
        k1 = velocity(x, now)
        k2 = velocity(x + d / 2 * k1, now + d / 2)
        k3 = velocity(x + d / 2 * k2, now + d / 2)
        x = x + d / 6 * (k1 + 2 * k2 + 2 * k3 + velocity(x + d * k3, now + d))
    return x


def random_bumps(seed: int, **options: float) -> tuple[Denoising, float, float, float]:
    """Random bumps, and three times t₁ < t₂ < t₃."""
    rng = np.random.default_rng(seed)
    drawn = {"radius": rng.uniform(0.5, 1.5), "spread": rng.uniform(0.2, 0.6)}
    t1, t2, t3 = rng.uniform([0, 0.3, 0.65], [0.15, 0.5, 0.9])
    return Denoising(modes=2, **drawn | options), t1, t2, t3


# The figures


def coin_triangle() -> HTML:
    """One jump and two jumps back from the 5 of the opening."""
    figure, axes = canvas(2.2)
    see, stop, one, two = (1.2, 3.2), (4.7, 0.8), (8.3, 3.2), (8.3, 0.8)
    for place, text, box in ((see, "5", BOXED), (stop, "4", OPERATOR), (one, "1", OPERATOR),
                             (two, "3", OPERATOR)):
        axes.text(*place, text, **box | dict(fontsize=13))
    for start, end in ((see, one), (see, stop), (stop, two)):
        arrow(axes, start, end, shrinkA=16, shrinkB=16)
    for x, y, text in ((4.7, 3.45, "one jump"), (1.75, 1.45, "first jump"),
                       (6.5, 1.0, "second jump")):
        axes.text(x, y, text, fontsize=11, ha="center")
    axes.text(8.3, 2.0, "≠", fontsize=16, ha="center", va="center", color=SECOND)
    axes.text(1.2, 3.95, "seen", fontsize=10, ha="center")
    axes.text(8.1, 3.95, "guess of the beginning", fontsize=10, ha="center")
    axes.text(4.7, 0.05, "it was 2 or 8", fontsize=10, ha="center", color=SECOND)
    return show(figure, "A triangle. One jump leads from the 5 that we see to the guess 1. Two "
                        "jumps lead from 5 by way of the guess 4 to the guess 3. The ends differ.",
                caption="Two ways back from the 5. In a frame without colour: what we see. Blue: "
                        "what we guess.")


def beside(axes: Axes) -> None:
    """The two bumps of the data, upright beside time 0."""
    axes.fill_betweenx(BUMP, -0.12 * HEIGHT, 0, color=TINT)


STARTS = torch.tensor([-1.5, 0.2, 1.5]).double()
WAY = np.linspace(TOP, 0, 13)
CURVES = torch.stack([flow(STARTS, TOP, u) for u in WAY])
DIRECT = guess(STARTS, TOP)


def draw_ways(t2: float) -> Figure:
    """Along the equation the stop-over changes nothing. Best guesses with a stop-over end elsewhere than the direct ones, and both end between the bumps."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, panels = subplots(2, height=4.4, sharex=True)
    middle, half = flow(STARTS, TOP, t2), guess(STARTS, TOP, t2)
    panels[0].plot(WAY, CURVES, color=QUIET, linewidth=3)
    panels[0].plot([t2] * 3, middle, "o", color=SECOND, markersize=5)
    panels[0].plot([0] * 3, flow(middle, t2, 0.0), "o", color=SECOND, markersize=6)
    for x, straight, y, z in zip(STARTS, DIRECT, half, guess(half, t2), strict=True):
        panels[1].plot([TOP, 0], [x, straight], color=QUIET, linewidth=3)
        panels[1].plot([TOP, t2, 0], [x, y, z], "o-", color=SECOND, markersize=5, linewidth=1.4)
    for panel, title, ends in zip(panels, ("following the equation", "jumping to the best guess"),
                                  (CURVES[-1], DIRECT), strict=True):
        beside(panel)
        panel.plot([0] * 3, ends, "s", color="black", fillstyle="none", markersize=9)
        panel.set(xlim=(TOP + 0.02, -0.13), ylim=(LOW, HIGH), ylabel="x", title=title,
                  yticks=[-1, 0, 1])
    panels[1].set_xlabel(FROM_NOISE)
    return figure


def means() -> HTML:
    """The guess at the mean, and the mean of the guesses: in the coin game and for the bumps."""
    figure, (left, right) = subplots(1, 2, height=3.1)
    numbers = np.arange(-9, 10)
    left.plot(numbers, 3 * np.sign(numbers) * (abs(numbers) > 3), "o", color=QUIET, markersize=3)
    left.plot([2, 8], [0, 3], "o", color="black", markersize=7, markerfacecolor="white")
    left.text(2.2, -0.75, "2, 2", fontsize=10, ha="center")
    left.text(8, 2.25, "8", fontsize=10, ha="center")
    left.set(xlim=(-9.8, 9.8), ylim=(-4, 4), xticks=[-8, -4, 0, 4, 8], yticks=[-3, 0, 1, 3],
             xlabel="after round one", ylabel="guess of the beginning", title="the coin")

    t2, x = 0.25, 0.6
    law = kernel(TOP, t2)[(GRID - x).abs().argmin()]
    middle = STEP * law @ GRID
    shown = (GRID >= -2.2) & (GRID <= 2.2)
    right.fill_between(GRID[shown], -1.7, -1.7 + 0.75 * law[shown], color=TINT)
    right.plot(GRID[shown], guess(GRID, t2)[shown], color=QUIET)
    right.set(xlim=(-2.2, 2.2), ylim=(-1.7, 1.7), xticks=[-1, 0, 1], yticks=[-1, 0, 1],
              xlabel="x at time 0.25", title="the bumps")
    for axes, at, low, two, one in ((left, 4, -4, 3, 1),
                                    (right, middle, -1.7, guess(middle[None], t2)[0],
                                     STEP * law @ guess(GRID, t2))):
        axes.plot([at, at], [low, two], ":", color="#777777", linewidth=1.2)
        axes.plot(at, two, "o", color=SECOND, markersize=11, label="two jumps")
        axes.plot(at, one, "s", color="black", markersize=7, label="one jump")
    left.legend(loc="upper left", fontsize=9, handletextpad=0.2, borderaxespad=0)
    return show(figure, "Two staircases. Left: after round one the number was 2, 2 or 8, and the "
                        "guesses there are 0, 0 and 3, of mean 1. At the mean 4 the guess is 3. "
                        "Right: the same for two bumps, with a smooth staircase.",
                caption="Grey: the second guess. Left: 2 and 2 lead to the guess 0, and 8 leads to "
                        "3. Black square: the mean of the guesses. Orange: the guess at the mean. "
                        "Right: the same after we have seen 0.6 at time 0.8. Light blue: how "
                        "likely each x is.")


HERE, AT = 0.5, 0.2604      # there two paths in three come from the upper bump


def paths_through() -> tuple[Tensor, Tensor]:
    """The x₀ and ε of twelve paths through one point, eight of them from the upper bump."""
    a, s = TASK.scales(HERE)
    hold = a * TASK.spread**2 / width(HERE)**2
    x0 = torch.cat([side + hold * (AT - a * side) + s * TASK.spread / width(HERE)
                    * torch.special.ndtri((torch.arange(count).double() + 0.5) / count)
                    for side, count in ((1, 8), (-1, 4))])
    return x0, (AT - a * x0) / s


def paces() -> tuple[float, float, float]:
    """The mean climb per time of those that climb, the mean fall of the others, the mean climb."""
    x0, noise = paths_through()
    a, s = TASK.scales(HERE)
    upward = math.pi / 2 * (s * x0 - a * noise)       # towards the data
    return upward[:8].mean().item(), -upward[8:].mean().item(), upward.mean().item()


def mean_velocity() -> HTML:
    """Twelve paths through one point, their mean direction, and the flow."""
    times = np.linspace(0.86, 0, 25)
    figure, axes = subplots(height=3.6)
    beside(axes)
    for k, (data, noise) in enumerate(zip(*paths_through(), strict=True)):
        path = [TASK.scales(u)[0] * data + TASK.scales(u)[1] * noise for u in times]
        axes.plot(times, path, color=QUIET, linewidth=1.1, linestyle="-" if k < 8 else "--")
    point = torch.tensor([AT]).double()
    axes.plot(times, [flow(point, HERE, u).item() for u in times], color=ACCENT, linewidth=3.2)
    axes.annotate("", (HERE - 0.3, AT + 0.3 * paces()[2]), (HERE, AT), zorder=6, arrowprops=dict(
        arrowstyle="-|>,head_width=0.35,head_length=0.7", color=SECOND, linewidth=2.6, shrinkA=0,
        shrinkB=0))
    axes.plot(HERE, AT, "o", color="black", markersize=8, zorder=7)
    axes.set(xlim=(0.86, -0.13), ylim=(-1.75, 1.75), yticks=[-1, 0, 1], ylabel="x",
             xlabel=FROM_NOISE)
    return show(figure, "Twelve thin lines pass through one point. Towards the data eight of them "
                        "climb to the upper bump and four fall to the lower one. An arrow at the "
                        "point shows their mean direction. It is a little upward, and a thick "
                        "curve, the flow, follows it at this point.",
                caption="Twelve paths through one point. Solid: eight to the upper bump. Dashed: "
                        "four to the lower bump. Orange: their mean direction. Blue: the flow.")


def ddim(x: Tensor, times: np.ndarray) -> tuple[list, list]:
    """The states and the guesses of DDIM on these times, from x: (1,)."""
    states, guesses = [x], []
    for t, u in zip(times[:-1], times[1:], strict=True):
        (a, s), (a_u, s_u) = TASK.scales(t), TASK.scales(u)
        guesses.append(guess(x, t))
        x = a_u * guesses[-1] + s_u * (x - a * guesses[-1]) / s
        states.append(x)
    return states, guesses


def draw_steps(steps: int) -> Figure:
    """One DDIM step ends at the first guess, between the bumps. With more steps the later guesses lie in the upper bump, and the end comes close to that of the exact flow."""  # noqa: E501  (the docstring is the figure's alt text)
    begin, times, fine = torch.tensor([0.6]).double(), *(
        np.linspace(0.9, 0, n + 1) for n in (steps, 30))
    states, guesses = ddim(begin, times)
    figure, axes = subplots(height=3.6)
    axes.fill_betweenx(BUMP[15:], -0.14 * HEIGHT[15:], 0, color=TINT)
    axes.plot(fine, [flow(begin, 0.9, u).item() for u in fine], color=QUIET, linewidth=4)
    for t, x, data in zip(times, states, guesses, strict=False):
        axes.plot([t, 0], [x, data], ":", color="black", linewidth=1)
        axes.plot(0, data, "o", color="black", fillstyle="none", markersize=10)
    axes.plot(times, states, "o-", color=SECOND, markersize=5, linewidth=1.5)
    axes.set(xlim=(0.93, -0.16), ylim=(-0.5, 2), xlabel=FROM_NOISE, ylabel="x",
             title=f"{steps} step{'s' * (steps > 1)} from x = 0.6 at time 0.9")
    return figure


def price() -> HTML:
    """The lowest sum of price and mismatch for three weights of the penalty."""
    rs = 1 - np.linspace(1, 0, 41) ** 2            # denser near 1
    figure, axes = subplots(height=3.2)
    axes.plot(rs, rs**2, "--", color="#777777", linewidth=1.6, label="the price alone")
    for weight, color, style in ((0.5, ACCENT, "-"), (2, "black", "-."), (10, SECOND, "-")):
        total, best = rs**2 + weight * (1 - rs) ** 2, weight / (1 + weight)
        axes.plot(rs, np.where(total < 1.4, total, np.nan), style, color=color,
                  label=f"λ = {weight}")
        axes.plot(best, best, "o", color=color, markersize=8)
    axes.axvline(1, color=QUIET, linestyle=":", linewidth=1.2)
    axes.set(xlim=(0, 1.03), ylim=(0, 1.4), yticks=[0, 0.5, 1], ylabel="price + λ · what is left",
             xlabel="r, how far the long jump moves")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9, frameon=False)
    return show(figure, "Three curves of the sum over r, for λ = 0.5, 2 and 10. Their lowest "
                        "points lie at r = 0.33, 0.67 and 0.91, and none reaches 1.",
                caption="The sum of the price and of λ times what is left of the mismatch, with "
                        "its lowest point. No weight reaches r = 1: a small step back from there "
                        "costs nearly no mismatch and lowers the price.")


def held_chain() -> HTML:
    """A jump of length 0.4 as four exact legs and a jump of length 0."""
    figure, axes = canvas(2.6)
    at = np.linspace(2.0, 9.3, 5)
    for row in range(5):
        y = 4.35 - 0.85 * row
        for k in range(row):
            arrow(axes, (at[k], y), (at[k + 1], y), linewidth=3, shrinkA=3, shrinkB=3)
        if row < 4:
            arrow(axes, (at[row], y), (at[-1], y), color=ACCENT, linewidth=1.6, shrinkA=3,
                  shrinkB=3)
        else:
            axes.plot(at[-1], y, "o", color=ACCENT, markersize=9, zorder=5)
            axes.text(at[-1], y - 0.5, "length 0", fontsize=10, ha="center", va="center")
        axes.text(0.15, y, f"{row} exact" if row else "one jump", fontsize=10, va="center")
        if row:
            axes.text(at[0] - 0.25, y, "=", fontsize=12, va="center", ha="center")
    for k, place in enumerate(at):
        axes.text(place, 4.8, f"{0.4 - 0.1 * k:.1f}", fontsize=10.5, ha="center", color="#555555")
    return show(figure, "Five rows. The first is one long thin arrow from time 0.4 to time 0. In "
                        "each further row one more short thick leg is split off on the left. In "
                        "the last row there are four thick legs and a dot.",
                caption="A jump from time 0.4 to 0. Thick: legs of length 0.1, which are exact. "
                        "Thin: what the network says about the rest. The dot is a jump of "
                        "length 0.")


# The ten digits

ROWS = """01110 00100 01110 01110 00010 11111 01110 11111 01110 01110
          10001 01100 10001 10001 00110 10000 10000 00001 10001 10001
          10001 00100 00001 00001 01010 11110 10000 00010 10001 10001
          10001 00100 00010 00110 10010 00001 11110 00100 01110 01111
          10001 00100 00100 00001 11111 00001 10001 01000 10001 00001
          10001 00100 01000 10001 00010 10001 10001 01000 10001 00001
          01110 01110 11111 01110 00010 01110 01110 01000 01110 01110"""
_BITS = np.array([[list(map(int, part)) for part in row.split()] for row in ROWS.splitlines()])
DIGITS = 2.0 * _BITS.swapaxes(0, 1).reshape(10, 35) - 1        # -1 is white, 1 is black
HIDDEN = 8, 3, 0, 7, 2


def scales(t: float) -> tuple[float, float]:
    """a_t and s_t as numbers."""
    a, s = TASK.scales(t)
    return a.item(), s.item()


def weigh(pixels: np.ndarray, a: float, s: float) -> np.ndarray:
    """How likely each digit is, by Bayes' rule: (35,) -> (10,)."""
    logs = -((pixels - a * DIGITS) ** 2).sum(1) / 2 / s**2
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def noisy(k: int = 0) -> np.ndarray:
    """The k-th of HIDDEN under the noise of time 0.8: (35,)."""
    first, more = np.random.default_rng(4), np.random.default_rng(15)
    noises = [first.normal(size=35), *(more.normal(size=35) for _ in HIDDEN[1:])]
    a, s = scales(TOP)
    return a * DIGITS[HIDDEN[k]] + s * noises[k]


def follow(pixels: np.ndarray, steps: int) -> np.ndarray:
    """DDIM from time 0.8 to 0 with the exact best guess of the digits."""
    clock = [scales(t) for t in np.linspace(TOP, 0, steps + 1)]
    for (a, s), (a_u, s_u) in zip(clock[:-1], clock[1:], strict=True):
        clean = weigh(pixels, a, s) @ DIGITS
        pixels = a_u * clean + s_u * (pixels - a * clean) / s
    return pixels


def pixelled(axes: Axes, pixels: np.ndarray, top: float) -> None:
    """A picture of 5 by 7 pixels, from white at −top to black at top."""
    axes.imshow(pixels.reshape(7, 5), cmap="Greys", vmin=-top, vmax=top, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=QUIET)


def digit_guess() -> HTML:
    """A digit under noise, the best guess of it, and three samples."""
    seen = noisy()
    weights = weigh(seen, *scales(TOP))
    drawn = np.random.default_rng(11).choice(10, 3, p=weights)
    drawn = drawn[np.argsort(-weights[drawn])]      # the likeliest first
    figure, panels = subplots(1, 5, height=1.7)
    for axes, pixels, title in zip(panels, (seen, weights @ DIGITS, *DIGITS[drawn]),
                                   ("what we see", "best guess", "a sample", "another", "another"),
                                   strict=True):
        pixelled(axes, pixels, np.abs(seen).max() if pixels is seen else 1)
        axes.set_title(title, fontsize=10)
    likely = ", ".join(f"{k}\u00a0({100 * weights[k]:.0f}\u00a0%)"
                       for k in np.argsort(-weights)[:4])
    return show(figure, "Five pictures of 5 by 7 pixels: pixels under noise, a grey blur, and "
                        f"three sharp digits, {', '.join(map(str, drawn))}.",
                caption="The best guess is the mean of all ten digits, each weighted by how likely "
                        f"it is: {likely} and the rest, by Bayes' rule. A sample is one digit, "
                        "drawn with these chances.")


def digit_steps() -> HTML:
    """Five digits under noise, and what one jump and twenty steps make of them."""
    seen = [noisy(k) for k in range(len(HIDDEN))]
    stages = {"what we see": seen, "one jump": [follow(x, 1) for x in seen],
              "20 steps": [follow(x, 20) for x in seen]}
    figure, panels = subplots(3, 5, height=3.3)
    for row, (name, pictures) in zip(panels, stages.items(), strict=True):
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
        for axes, pixels in zip(row, pictures, strict=True):
            pixelled(axes, pixels, np.abs(pixels).max() if pictures is seen else 1)
    ends = ", ".join(str(np.abs(x - DIGITS).sum(1).argmin()) for x in stages["20 steps"])
    chance = 100 * weigh(seen[0], *scales(TOP))[HIDDEN[0]]
    return show(figure, "Three rows of five pictures of 5 by 7 pixels. Above: pixels under noise. "
                        "Middle: one jump makes a mixture of several digits, in grey. Below: "
                        f"twenty steps make sharp digits, {ends}.",
                caption=f"Under the noise were {', '.join(map(str, HIDDEN))}. DDIM makes the small "
                        f"steps. They end at {ends}. Bayes' rule gave the first one "
                        f"{chance:.0f}\u00a0%.")
