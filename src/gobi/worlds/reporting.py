"""How good a grid model is: a table per action on levels it has not seen, and what it predicted."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Integer, Key, UInt8

from gobi.envs.minigrid.rules import ACTION_NAMES
from gobi.worlds.collecting import Transitions, pairs
from gobi.worlds.erasure import Erase
from gobi.worlds.generative import Generative
from gobi.worlds.network import FRONT, Network, accuracy
from gobi.worlds.pretraining import targets

BATCH = 512
"""Rows that are predicted at once."""
BOUND_SAMPLES = 16


@dataclasses.dataclass(frozen=True)
class ActionRow:
    """How well the outcomes of one action are predicted.

    action:          its name, or `all`.
    rows:            transitions with it.
    exact:           share predicted right in every cell and channel.
    cells:           share of right cells.
    changing:        transitions whose view differs before and after: the ones worth predicting.
    changing_exact:  the same shares among those; NaN where there are none.
    changing_cells:
    """

    action: str
    rows: int
    exact: float
    cells: float
    changing: int
    changing_exact: float
    changing_cells: float


@dataclasses.dataclass(frozen=True)
class Report:
    """How good a model is on transitions of levels that are not in its data.

    actions:  a row for each action.
    total:    all actions together.
    loss:     the training loss, per row.
    unseen:   share of rows whose panorama and action are not in the training data; NaN if not asked for.
    bound:    a generative model's bound on the log-likelihood, in nats per view; NaN for the others.
    """

    actions: tuple[ActionRow, ...]
    total: ActionRow
    loss: float
    unseen: float
    bound: float

    def table(self) -> str:
        """The report as aligned text."""
        head = f"{'action':<8}{'rows':>8}{'exact':>9}{'cells':>9}{'changing':>10}{'exact':>9}{'cells':>9}"
        lines = [head] + [_line(row) for row in (*self.actions, self.total)]
        lines.append(f"loss {self.loss:.3f} per row")
        if not np.isnan(self.unseen):
            lines.append(f"panorama and action not in the training data: {self.unseen:.1%} of the rows")
        if not np.isnan(self.bound):
            lines.append(f"log-likelihood at least {self.bound:.3f} nats per view")
        return "\n".join(lines)


def _line(row: ActionRow) -> str:
    shares = [f"{share:.1%}" if not np.isnan(share) else "-" for share in (row.exact, row.cells)]
    changing = [
        f"{share:.1%}" if not np.isnan(share) else "-" for share in (row.changing_exact, row.changing_cells)
    ]
    return (
        f"{row.action:<8}{row.rows:>8}{shares[0]:>9}{shares[1]:>9}"
        f"{row.changing:>10}{changing[0]:>9}{changing[1]:>9}"
    )


def report(
    network: Network,
    data: Transitions,
    key: Key[Array, ""],
    training_data: Transitions | None = None,
    erase_targets: Erase = False,
) -> Report:
    """Predicts every row of held-out data and compares with what really happened."""
    predicted, losses, bounds = predictions(network, data, key, erase_targets)
    shares = accuracy(jnp.asarray(predicted), targets(network, data, erase_targets))
    exact, cells = (np.asarray(part) for part in shares)
    changing = np.any(data.panorama[:, FRONT] != data.after[:, FRONT], axis=(1, 2, 3))
    unseen = float("nan")
    if training_data is not None:
        unseen = float(np.mean(~np.isin(pairs(data), pairs(training_data))))
    rows = [
        _row(name, data.action == number, exact, cells, changing) for number, name in enumerate(ACTION_NAMES)
    ]
    return Report(
        actions=tuple(rows),
        total=_row("all", np.ones(len(data), bool), exact, cells, changing),
        loss=float(np.mean(losses)),
        unseen=unseen,
        bound=float(np.mean(bounds)) / network.views,
    )


def _row(
    name: str,
    chosen: Bool[np.ndarray, " n"],
    exact: Bool[np.ndarray, " n"],
    cells: Float[np.ndarray, " n"],
    changing: Bool[np.ndarray, " n"],
) -> ActionRow:
    def share(values: np.ndarray, where: np.ndarray) -> float:
        return float(values[where].mean()) if where.any() else float("nan")

    both = chosen & changing
    return ActionRow(
        action=name,
        rows=int(chosen.sum()),
        exact=share(exact, chosen),
        cells=share(cells, chosen),
        changing=int(both.sum()),
        changing_exact=share(exact, both),
        changing_cells=share(cells, both),
    )


def predictions(
    network: Network, data: Transitions, key: Key[Array, ""], erase: Erase
) -> tuple[UInt8[np.ndarray, "n views 7 7 3"], Float32[np.ndarray, " n"], Float32[np.ndarray, " n"]]:
    """The prediction, loss and bound of every row, in batches of one size."""
    wanted = targets(network, data, erase)
    parts = []
    for start in range(0, len(data), BATCH):
        rows = np.minimum(np.arange(start, start + BATCH), len(data) - 1)
        arrays = jnp.asarray(data.panorama[rows]), jnp.asarray(data.action[rows]), wanted[rows]
        found = _evaluate(network, *arrays, jax.random.fold_in(key, start))
        parts.append([np.asarray(part)[: len(data) - start] for part in found])
    predicted, losses, bounds = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return predicted, losses, bounds


@jax.jit
def _evaluate(
    network: Network,
    panorama: UInt8[Array, "n 4 7 7 3"],
    action: Integer[Array, " n"],
    target: UInt8[Array, "n views 7 7 3"],
    key: Key[Array, ""],
) -> tuple[UInt8[Array, "n views 7 7 3"], Float32[Array, " n"], Float32[Array, " n"]]:
    loss_key, bound_key, predict_key = jax.random.split(key, 3)
    keys = jax.random.split(predict_key, len(action))
    # A generative model is asked for its likeliest future; the public code's predictions have their noise.
    noise = jnp.zeros(1) if isinstance(network, Generative) else jnp.ones(1)
    predicted = network.predict(network.encode(panorama), action[:, None], keys, noise)[:, 0]
    bound = jnp.full(len(action), jnp.nan)
    if isinstance(network, Generative):
        bound = network.bound(panorama, action, target, bound_key, BOUND_SAMPLES)
    return predicted, network.loss(panorama, action, target, loss_key), bound
