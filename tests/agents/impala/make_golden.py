"""Makes the golden numbers of the tests beside it, with the libraries that gobi is checked against.

    python make_golden.py vtrace         needs rlax    writes vtrace_golden.json
    python make_golden.py torch          needs torch   writes rmsprop_golden.json and lstm_golden.json

Neither library is needed to run gobi or its tests. Made with rlax 0.1.9 and torch 2.13.0.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def vtrace_cases() -> list[dict]:
    """Trajectories on and off the policy, with episode ends, at several clips (rlax clips c at 1 always)."""
    import jax.numpy as jnp
    import rlax

    draw = random.Random(0)
    cases = []
    for steps, spread, clip_rho, clip_pg_rho in [
        (1, 0.0, 1.0, 1.0),
        (7, 0.0, 1.0, 1.0),
        (20, 1.0, 1.0, 1.0),
        (33, 1.5, 2.0, 1.3),
    ]:
        values = [draw.gauss(0, 1) for _ in range(steps + 1)]
        rewards = [draw.gauss(0, 1) for _ in range(steps)]
        discounts = [draw.choice([0.0, 0.99, 0.99, 0.99, 0.9]) for _ in range(steps)]
        log_rhos = [draw.gauss(0, spread) for _ in range(steps)]
        out = rlax.vtrace_td_error_and_advantage(
            v_tm1=jnp.array(values[:-1]),
            v_t=jnp.array(values[1:]),
            r_t=jnp.array(rewards),
            discount_t=jnp.array(discounts),
            rho_tm1=jnp.exp(jnp.array(log_rhos)),
            clip_rho_threshold=clip_rho,
            clip_pg_rho_threshold=clip_pg_rho,
        )
        cases.append(
            {
                "values": values[:-1],
                "bootstrap": values[-1],
                "rewards": rewards,
                "discounts": discounts,
                "log_rhos": log_rhos,
                "clip_rho": clip_rho,
                "clip_pg_rho": clip_pg_rho,
                "targets": (out.errors + jnp.array(values[:-1])).tolist(),
                "advantages": out.pg_advantage.tolist(),
            }
        )
    return cases


def rmsprop_case() -> dict:
    """Six steps on a matrix and a vector, gradients below and above the clip, the learning rate falling."""
    import torch

    torch.manual_seed(0)
    parameters = [torch.randn(3, 2), torch.randn(4)]
    start = [p.tolist() for p in parameters]
    for p in parameters:
        p.requires_grad_()
    optimiser = torch.optim.RMSprop(parameters, lr=1.0, alpha=0.99, eps=1e-5, momentum=0)
    steps = []
    for scale, rate in [(1.0, 1e-2), (100.0, 8e-3), (1e-4, 6e-3), (0.0, 4e-3), (30.0, 2e-3), (0.3, 1e-3)]:
        for p in parameters:
            p.grad = torch.randn_like(p) * scale
        gradients = [p.grad.tolist() for p in parameters]
        norm = torch.nn.utils.clip_grad_norm_(parameters, 40.0)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        steps.append(
            {
                "gradients": gradients,
                "learning_rate": rate,
                "norm": norm.item(),
                "parameters": [p.tolist() for p in parameters],
            }
        )
    return {"start": start, "max_norm": 40.0, "steps": steps}


def lstm_case() -> dict:
    """One layer over five steps of two sequences, from a state that is not zero."""
    import torch

    torch.manual_seed(1)
    layer = torch.nn.LSTM(input_size=3, hidden_size=4)
    inputs, hidden, cell = torch.randn(5, 2, 3), torch.randn(1, 2, 4), torch.randn(1, 2, 4)
    outputs, (_, last_cell) = layer(inputs, (hidden, cell))
    return {
        "input_weight": layer.weight_ih_l0.T.tolist(),
        "hidden_weight": layer.weight_hh_l0.T.tolist(),
        "input_bias": layer.bias_ih_l0.tolist(),
        "hidden_bias": layer.bias_hh_l0.tolist(),
        "inputs": inputs.tolist(),
        "hidden": hidden[0].tolist(),
        "cell": cell[0].tolist(),
        "outputs": outputs.tolist(),
        "last_cell": last_cell[0].tolist(),
    }


def write(name: str, content: object) -> None:
    (FOLDER / f"{name}_golden.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["vtrace"]:
        write("vtrace", vtrace_cases())
    elif sys.argv[1:] == ["torch"]:
        write("rmsprop", rmsprop_case())
        write("lstm", lstm_case())
    else:
        sys.exit(__doc__)
