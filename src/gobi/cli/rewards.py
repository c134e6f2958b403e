"""`gobi rewards`: the intrinsic rewards that have a name."""

from __future__ import annotations

from gobi.cli.terminal import say, show
from gobi.rewards import registry
from gobi.rewards.control import registry as control

WORLDS_READ = "view, panorama (privileged); the simulator (privileged) with --world real"


def rewards() -> None:
    """Lists the intrinsic rewards: what each pays for, what it reads, and its options."""
    show(
        [_row(name) for name in registry.REWARDS], ["reward", "pays", "reads", "coefficient"], ["coefficient"]
    )
    say(
        "\nprivileged: the agent itself does not see it\n"
        "coefficient: on most tasks; some have their own, and r1 to r3 and gobi decay\n"
        "your own: gobi train TASK --reward FILE.py:CLASS, a class with init and step\n"
        "gobi train TASK --reward NAME; options, as --set reward_options=NAME=VALUE,NAME=VALUE:"
    )
    for name, entry in registry.REWARDS.items():
        if entry.make is not None:
            options = ", ".join(f"{option}={value}" for option, value in registry.defaults(name).items())
            say(f"  {name}: {options}")
    say("what each option means and may be: the reward's page in the documentation (docs/rewards/NAME.md)")
    say(
        "\non control tasks (gobi train dmc/...) there are these, with coefficients and options of their own:"
    )
    for name in control.REWARDS:
        options = ", ".join(f"{option}={value}" for option, value in control.defaults(name).items())
        say(f"  {name}: {options or 'no options'}")
    say("what they mean: docs/rewards/control.md; all settings: gobi recipe dmc/TASK --set reward=NAME")


def _row(name: str) -> list[str]:
    entry = registry.find(name)
    if name == "none":
        return [name, entry.summary, "nothing", "-"]
    return [name, entry.summary, _reads(entry), f"{entry.coefficient:g}"]


def _reads(entry: registry.Entry) -> str:
    if entry.imagines:
        return WORLDS_READ
    if entry.make is None:
        return "view"
    names = {
        "observation": "view",
        "full_grid": "full grid (privileged)",
        "panorama": "panorama (privileged)",
    }
    reads = entry.make().reads
    return ", ".join(text for view, text in names.items() if view in reads)
