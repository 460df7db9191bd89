"""What a person looks at after a run: a table and a picture, repelled beside the base kernel."""

from pathlib import Path
from typing import Any

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc._run import Run
from srmc.metrics import batch_means_error
from srmc.targets import Moments

PyTree = Any
_LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}


def leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """The arrays of a pytree by name; a bare array is called x."""
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "x": np.asarray(leaf)
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def coordinates(tree: PyTree, leading: int = 0) -> dict[str, np.ndarray]:
    """The entries of a pytree by name, such as `theta_raw[3]`."""
    named = {}
    for name, leaf in leaves(tree).items():
        for index in np.ndindex(leaf.shape[leading:]):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            named[label] = leaf[(slice(None),) * leading + index]
    return named


def summarize(run: Run) -> dict[str, Any]:
    """Mean, sd and batch-means error of each coordinate, and what the run cost."""
    stats = run.stats
    return {
        "mean": {k: float(x.mean()) for k, x in coordinates(run.draws, 2).items()},
        "sd": {k: float(x.std()) for k, x in coordinates(run.draws, 2).items()},
        "error": {k: float(x) for k, x in coordinates(batch_means_error(run.draws)).items()},
        "steps": int(stats["gradients"].shape[1]),
        "acceptance_rate": float(np.nanmean(stats["acceptance_rate"])),
        "gradients": int(stats["gradients"].sum(dtype=np.int64)),
        "hvps": int(stats["hvps"].sum(dtype=np.int64)),
        "non_finite_steps": int((~stats["is_finite"]).sum()),
        "hot_steps": int(stats["is_hot"].sum()),
        "last_alpha": float(stats["alpha"][:, -1].mean()),
        "largest_exponent": float(stats["exponent"].max()),
    }


def table(base: dict, repelled: dict, truth: Moments | None, most: int = 12) -> Table:
    """Both summaries side by side, with the true means where they are known."""
    out = Table(box=SIMPLE_HEAD, title="Means, with their batch-means errors", **_LEFT)
    out.add_column("")
    true_mean = coordinates(truth.mean) if truth is not None else {}
    for column in [*(["truth"] if true_mean else []), *("base", "sd", "repelled", "sd")]:
        out.add_column(column, justify="right", no_wrap=True)
    names = list(base["mean"])
    for name in names[:most]:
        row = [name] + ([f"{true_mean[name]:.4g}"] if true_mean else [])
        for side in (base, repelled):
            row += [f"{side['mean'][name]:.4g} ± {side['error'][name]:.1g}"]
            row += [f"{side['sd'][name]:.3g}"]
        out.add_row(*row)
    out.caption = "A repelled run makes up for its past, which batch means do not see."
    if len(names) > most:
        out.caption += f"\n{len(names) - most} more coordinates are in summary.json."
    return out


def cost_table(base: dict, repelled: dict, truth: Moments | None) -> Table:
    """What each run took, and how far its means are from the truth."""
    out = Table(box=SIMPLE_HEAD, title="The two runs", **_LEFT)
    for column in ("", "base", "repelled"):
        out.add_column(column, justify="right" if column else "left")
    rows = {
        "steps a chain": "steps",
        "acceptance": "acceptance_rate",
        "gradients": "gradients",
        "of them Hessian-vector products": "hvps",
        "steps with something not finite": "non_finite_steps",
        "steps at which the guard lowered alpha": "hot_steps",
        "seconds, compilation included": "seconds",
        "alpha at the end": "last_alpha",
        "largest exponent scale": "largest_exponent",
    }
    for label, key in rows.items():
        values = [side[key] for side in (base, repelled)]
        out.add_row(label, *(f"{v:,}" if isinstance(v, int) else f"{v:.3g}" for v in values))
    if truth is not None:
        off = [f"{_distance(side, truth):.2g}" for side in (base, repelled)]
        out.add_row("means off the truth, in sd (root mean square)", *off)
    return out


def _distance(summary: dict, truth: Moments) -> float:
    mean, variance = coordinates(truth.mean), coordinates(truth.variance)
    squares = [(summary["mean"][k] - mean[k]) ** 2 / variance[k] for k in mean]
    return float(np.sqrt(np.mean(squares)))


def overhead_table(rows: list[dict]) -> Table:
    """The rows of `srmc bench overhead`."""
    out = Table(box=SIMPLE_HEAD, title="Time beside BlackJAX (quartiles over repeats)", **_LEFT)
    for column in ("", "µs/step", "ratio", "quartiles", "compile", "ratio"):
        out.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        low, high = row["ratio_quartiles"]
        out.add_row(
            f"{row['kernel']}, {row['variant']}",
            f"{row['microseconds_a_step']:.0f}",
            f"{row['ratio']:.2f}",
            f"{low:.2f}, {high:.2f}",
            f"{row['compile_seconds']:.1f} s",
            f"{row['compile_ratio']:.2f}",
        )
    return out


_FUNCTIONALS = ("mean", "second", "covariance", "quantile", "tail")


def noharm_cells(rows: list[dict], side: str = "repelled") -> list[list[str]]:
    """A heading, a line for each row of `srmc bench noharm`, and geometric means a kernel."""
    rows = [row for row in rows if side in row["errors"]]
    names = [name for name in _FUNCTIONALS if any(name in row["errors"][side] for row in rows)]
    lines = [["kernel", "target", *names]]
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        mine = [row for row in rows if row["kernel"] == kernel]
        for row in mine:
            errors = [row["errors"][side].get(name) for name in names]
            cells = ["" if e is None else _cell(e["ratio"], e["error"]) for e in errors]
            lines.append([kernel, row["target"], *cells])
        line = [kernel, "geometric mean"]
        for name in names:
            ratios = [r["errors"][side].get(name, {}).get("ratio") for r in mine]
            known = [r for r in ratios if r is not None and np.isfinite(r) and r > 0]
            line.append(f"{np.exp(np.mean(np.log(known))):.3g}" if known else "")
        lines.append(line)
    return lines


def _cell(ratio: float, error: float) -> str:
    if not np.isfinite(ratio):
        return "not finite"
    return f"{ratio:.2g}" if ratio > 100 else f"{ratio:.3f} ± {error:.3f}"


def noharm_table(rows: list[dict]) -> Table:
    """The rows of `srmc bench noharm`."""
    out = Table(box=SIMPLE_HEAD, title="Squared errors, repelled over plain", **_LEFT)
    head, *lines = noharm_cells(rows)
    for column in head:
        out.add_column(column, justify="left" if column in head[:2] else "right")
    for line in lines:
        out.add_row(*line, end_section=line[1] == "geometric mean")
    out.caption = "At equal cost, over replicates, with the jackknife error of the ratio."
    return out


def noharm_page(rows: list[dict]) -> str:
    """The same as Markdown, with all that stands beside it."""
    sides = {
        "repelled": 'Repelled, `alpha="auto"`',
        "shift": "The shift alone",
        "paper": "The paper's settings (alpha = 1, rho = 0.6, tilt, fixed frame)",
        "zv1": "Control variates of first order on the plain draws",
        "zv2": "Control variates of second order on the plain draws",
    }
    parts = []
    groups = dict.fromkeys((row["chains"], str(row["alpha"])) for row in rows)
    for chains, alpha in groups:
        mine = [r for r in rows if (r["chains"], str(r["alpha"])) == (chains, alpha)]
        for side, title in sides.items():
            if not any(side in row["errors"] for row in mine):
                continue
            what = "one chain" if chains == 1 else f"{chains} chains, pooled, one history"
            if alpha != "auto":
                title = f"Repelled, alpha dealt out from {alpha}"
            parts += [f"## {title}, {what}", ""]
            head, *lines = ["| " + " | ".join(line) + " |" for line in noharm_cells(mine, side)]
            parts += [head, "|---|---|" + "---:|" * (head.count("|") - 3), *lines]
            parts += [""]
            if side == "repelled":
                bad = sum(row["non_finite_results"] for row in mine)
                runs = sum(row["replicates"] for row in mine)
                parts += [f"Results that are not finite: {bad}, in {runs} runs.", ""]
    return "\n".join(parts)


def plot(base: Run, repelled: Run, truth: Moments | None, path: Path, title: str) -> None:
    """Trace, running mean and history of both runs, as a PNG."""
    sides = {"base": (base, "0.55"), "repelled": (repelled, "C3")}
    draws = {side: coordinates(run.draws, 2) for side, (run, _) in sides.items()}
    true_mean = coordinates(truth.mean) if truth is not None else {}
    names = list(draws["base"])[:3]
    fig, axes = plt.subplots(
        len(names) + 1, 2, figsize=(11, 2.3 * (len(names) + 1)), layout="constrained", squeeze=False
    )
    for (trace, running), name in zip(axes, names, strict=False):
        for side, (_, colour) in sides.items():
            x = draws[side][name]
            steps = 1 + np.arange(x.shape[1])
            trace.plot(steps, x[0], color=colour, lw=0.5, label=side)
            mean = np.cumsum(x.mean(axis=0)) / steps
            running.plot(steps, mean, color=colour, lw=1.2, label=side)
        trace.set(ylabel=name, title="trace of the first chain" if name == names[0] else "")
        running.set(title="running mean over all chains" if name == names[0] else "")
        settled = np.concatenate([line.get_ydata()[len(steps) // 10 :] for line in running.lines])
        if name in true_mean:
            running.axhline(true_mean[name], color="k", lw=0.8, ls=":", label="truth")
            settled = np.append(settled, true_mean[name])
        middle, half = (settled.max() + settled.min()) / 2, np.ptp(settled) * 0.6 + 1e-12
        running.set_ylim(middle - half, middle + half)
    axes[0, 1].legend(loc="best", fontsize="small")
    for axis, key, label in zip(
        axes[-1], ("theta_norm", "exponent"), ("|theta|", "exponent scale α|Aθ·s|"), strict=True
    ):
        series = repelled.stats[key].mean(axis=0)
        axis.semilogy(1 + np.arange(len(series)), np.maximum(series, 1e-12), color="C3", lw=0.8)
        axis.set(xlabel="step", ylabel=label)
    fig.suptitle(title)
    fig.savefig(path, dpi=110)
    plt.close(fig)
