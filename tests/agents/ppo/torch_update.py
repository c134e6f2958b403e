"""A whole update of PPO in torch and numpy; run as a script it writes the golden numbers (needs torch).

python tests/agents/ppo/torch_update.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "torch_update_golden.json"

STEPS, ENVS, INPUTS, ACTIONS, UNITS, VALUES = 5, 4, 2, 3, 6, 2
EPOCHS, RATE = 3, 0.01
"""Adam's first step says little more than the gradient's signs; its third depends on their sizes."""

NUMBERS = {
    "discount": 0.97,
    "bonus_discount": 0.95,
    "gae_lambda": 0.9,
    "clip_ratio": 0.2,
    "entropy_cost": 0.03,
    "value_cost": 0.5,
    "max_grad_norm": 0.5,
}
EXTRINSIC, INTRINSIC = 5.0, 0.7
SHAPES = {
    "torso_weight": (8 * INPUTS, UNITS),
    "torso_bias": (UNITS,),
    "gates_weight": (UNITS, 2 * UNITS),
    "gates_bias": (2 * UNITS,),
    "heads_weight": (UNITS, ACTIONS + VALUES),
    "heads_bias": (ACTIONS + VALUES,),
}


def case() -> dict[str, Any]:
    """Weights and a rollout; numpy draws the same on every machine."""
    random = np.random.default_rng(0)

    def normal(*shape, size=1.0):
        return (size * random.normal(size=shape)).astype(np.float32)

    terminated, truncated = np.zeros((2, STEPS, ENVS), bool)
    terminated[1, 0] = truncated[3, 1] = truncated[STEPS - 1, 2] = True
    first = np.concatenate([[[True, False, False, True]], terminated | truncated])
    return {
        "weights": {name: normal(*shape, size=0.4) for name, shape in SHAPES.items()},
        "observations": random.integers(0, 256, (STEPS + 1, ENVS, INPUTS)).astype(np.uint8),
        "last_observations": random.integers(0, 256, (STEPS, ENVS, INPUTS)).astype(np.uint8),
        "first": first,
        "actions": random.integers(0, ACTIONS, (STEPS, ENVS)).astype(np.int32),
        "log_taken": np.float32(-1.1) + normal(STEPS, ENVS, size=0.3),
        "values": normal(STEPS, ENVS, VALUES),
        "rewards": normal(STEPS, ENVS),
        "bonus": np.abs(normal(STEPS, ENVS)),
        "terminated": terminated,
        "truncated": truncated,
        "carry": normal(ENVS, UNITS),
        "next_carry": normal(ENVS, UNITS),
    }


def network(torch, weights, observation, first, hidden):
    """One step: outputs of the heads, and the new hidden state."""
    bits = (observation[..., None] >> np.arange(8, dtype=np.uint8)) & 1
    x = torch.tensor(bits.reshape(len(bits), -1).astype(np.float32))
    x = torch.relu(x @ weights["torso_weight"] + weights["torso_bias"])
    gates = x @ weights["gates_weight"] + weights["gates_bias"]
    update, candidate = torch.sigmoid(gates[:, :UNITS]), torch.tanh(gates[:, UNITS:])
    hidden = torch.where(torch.tensor(first)[:, None], torch.zeros_like(hidden), hidden)
    hidden = (1 - update) * hidden + update * candidate
    return (hidden + x) @ weights["heads_weight"] + weights["heads_bias"], hidden


def advantages(case, after, beyond):
    """Advantages of the weighted sum, and targets; the bonus goes on over ends, and is scaled."""
    sums, total = [], np.zeros(ENVS)
    for t in range(STEPS):
        total = case["bonus"][t] + NUMBERS["bonus_discount"] * total
        sums.append(total)
    bonus = case["bonus"] / np.std(sums)
    done = case["terminated"] | case["truncated"]
    values = np.concatenate([case["values"], after[None]])
    parts = np.zeros((STEPS, ENVS, VALUES))
    streams = (case["rewards"], "discount", done), (bonus, "bonus_discount", np.zeros_like(done))
    for n, (rewards, discount, ends) in enumerate(streams):
        gamma = NUMBERS[discount]
        for e in range(ENVS):
            later = 0.0
            for t in reversed(range(STEPS)):
                follows, later = (beyond[t, e, n], 0.0) if ends[t, e] else (values[t + 1, e, n], later)
                error = rewards[t, e] + gamma * follows - values[t, e, n]
                later = parts[t, e, n] = error + gamma * NUMBERS["gae_lambda"] * later
    return EXTRINSIC * parts[..., 0] + INTRINSIC * parts[..., 1], parts + values[:-1]


def update() -> dict[str, Any]:
    """The weights, Adam's moments and the gradient's mean norm after three steps on the whole rollout."""
    import torch

    data = case()
    weights = {name: torch.tensor(array, requires_grad=True) for name, array in data["weights"].items()}
    with torch.no_grad():
        ongoing = np.zeros(ENVS, bool)
        outputs, _ = network(
            torch, weights, data["observations"][-1], data["first"][-1], torch.tensor(data["next_carry"])
        )
        after, beyond = outputs[:, ACTIONS:].numpy(), np.zeros((STEPS, ENVS, VALUES))
        hidden = torch.tensor(data["carry"])
        for t in range(STEPS):
            _, hidden = network(torch, weights, data["observations"][t], data["first"][t], hidden)
            outputs, _ = network(torch, weights, data["last_observations"][t], ongoing, hidden)
            beyond[t] = outputs[:, ACTIONS:].numpy() * data["truncated"][t][:, None]
    whole, targets = advantages(data, after, beyond)
    whole = torch.tensor((whole - whole.mean()) / whole.std(), dtype=torch.float32)
    targets = torch.tensor(targets, dtype=torch.float32)
    optimiser, norms = torch.optim.Adam(weights.values(), lr=RATE, eps=1e-5), []
    for _ in range(EPOCHS):
        hidden, outputs = torch.tensor(data["carry"]), []
        for t in range(STEPS):
            step, hidden = network(torch, weights, data["observations"][t], data["first"][t], hidden)
            outputs.append(step)
        outputs = torch.stack(outputs)
        policy = torch.distributions.Categorical(logits=outputs[..., :ACTIONS])
        ratio = torch.exp(policy.log_prob(torch.tensor(data["actions"])) - torch.tensor(data["log_taken"]))
        bounded = torch.clamp(ratio, 1 - NUMBERS["clip_ratio"], 1 + NUMBERS["clip_ratio"])
        loss = torch.max(-whole * ratio, -whole * bounded).mean()
        for n in range(VALUES):
            half = torch.nn.functional.mse_loss(outputs[..., ACTIONS + n], targets[..., n]) / 2
            loss = loss + NUMBERS["value_cost"] * half
        loss = loss - NUMBERS["entropy_cost"] * policy.entropy().mean()
        optimiser.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(weights.values(), NUMBERS["max_grad_norm"])))
        optimiser.step()
    moments = {name: optimiser.state[tensor] for name, tensor in weights.items()}
    return {
        "weights": {name: tensor.detach().numpy().tolist() for name, tensor in weights.items()},
        "means": {name: state["exp_avg"].numpy().tolist() for name, state in moments.items()},
        "squares": {name: state["exp_avg_sq"].numpy().tolist() for name, state in moments.items()},
        "gradient_norm": float(np.mean(norms)),
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(update()) + "\n")
