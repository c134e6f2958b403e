"""The studies by name: every figure of the paper that is trained, and controls that it lacks."""

from __future__ import annotations

from gobi.envs.dmc import TASKS as CONTROL_TASKS
from gobi.reproduce import searches
from gobi.reproduce.study import Study, crossed
from gobi.rewards.registry import REWARDS
from gobi.training.recipes import SCHEDULES

N7 = "MiniGrid-MultiRoom-N7-S8-v0"
N12 = "MiniGrid-MultiRoom-N12-S10-v0"
S3 = "MiniGrid-KeyCorridorS3R3-v0"
S4 = "MiniGrid-KeyCorridorS4R3-v0"
S5 = "MiniGrid-KeyCorridorS5R3-v0"
MAZE = "MiniGrid-ObstructedMaze-2Dlh-v0"
NOISY = "gobi/MultiRoom-N7-S8-noisy-v0"
N4 = "MiniGrid-MultiRoom-N4-S5-v1"
NOISY_N4 = "gobi/MultiRoom-N4-S5-noisy-v0"
MIDDLE = "gobi/ObstructedMaze-2Q-middle-v0"
"""The paper's 2Q starts in the middle room, as its code had it; Farama's id of that name starts elsewhere."""

PENDULUM = "dmc/pendulum_swingup"
HOPPER = "dmc/hopper_hop"
WALKER = "dmc/walker_run_sparse"
CHEETAH = "dmc/cheetah_run_sparse"

FOUR = (PENDULUM, HOPPER, WALKER, CHEETAH)
"""The paper's control tasks. It names the first three; that the fourth is the cheetah's is our guess, by the
word locomotion. The study has the other candidate too, Cartpole Swingup Sparse."""

TWELVE = tuple(MIDDLE if task == "MiniGrid-ObstructedMaze-2Q-v0" else task for task in SCHEDULES)

PAPER_RATIO = 1.95
"""Of the wall-clock of GoBI and of NovelD, 10.65 and 5.46 hours."""

STUDIES: dict[str, Study] = {
    "minigrid": Study(
        "GoBI and the baselines on the twelve MiniGrid tasks",
        "the figure of training performance on 12 MiniGrid environments",
        crossed(TWELVE, {name: {"reward": name} for name in ("gobi", "noveld", "ride", "rnd", "ec")}),
    ),
    "ablation": Study(
        "GoBI and its parts",
        "the comparison of GoBI, R1, R2 and R3",
        crossed((N7, S5, MAZE), {name: {"reward": name} for name in ("gobi", "r1", "r2", "r3")}),
    ),
    "dynamics": Study(
        "the real simulator as the world, and a learned one",
        "the comparison of real and learned dynamics",
        crossed((N7, S4), {"learned": {"world": "learned"}, "real": {"world": "real"}}),
    ),
    "accuracy": Study(
        "worlds that were pre-trained on less",
        "the study of the model's accuracy",
        crossed((N7,), {name: {"pretrain_frames": int(float(name))} for name in ("1e3", "1e4", "1e5")}),
    ),
    "steps": Study(
        "how many steps ahead, and two controls: none at all, and a world that was never trained",
        "the comparison of k with real and learned dynamics; the controls are ours",
        crossed(
            (N7,),
            {
                **{f"real-k{k}": {"world": "real", "steps": k} for k in (1, 2, 3)},
                **{f"learned-k{k}": {"world": "learned", "steps": k} for k in (1, 2, 3)},
                "k0": {"steps": 0},
                "untrained": {"pretrain_epochs": 0},
            },
        ),
    ),
    "actions": Study(
        "how many randomly chosen actions are imagined",
        "the comparison of n on MultiRoom-N7-S8",
        crossed((N7,), {f"n{n}": {"sampled_actions": n} for n in (3, 5, 10, 15)}),
    ),
    "decay": Study(
        "how fast the bonus decays",
        "the comparison of rho on MultiRoom-N12-S10",
        crossed((N12,), {f"rho-{rho}": {"decay": float(rho)} for rho in ("5e-7", "8e-7", "1e-6")}),
    ),
    "pretraining": Study(
        "a world that is fixed after pre-training, fine-tuned, or learned from scratch meanwhile",
        "the comparison of fixed, fine-tuned and online models on MultiRoom-N7-S8",
        crossed((N7,), {mode: {"world_mode": mode} for mode in ("fixed", "finetuned", "online")}),
    ),
    "heatmaps": Study(
        "where agents go while they learn",
        "the visitation heatmaps of GoBI and NovelD on KeyCorridorS5R3, of GoBI and EC on MultiRoom-N7-S8",
        (
            *crossed((S5,), {name: {"reward": name, "snapshots": 24} for name in ("gobi", "noveld")}),
            *crossed((N7,), {name: {"reward": name, "snapshots": 16} for name in ("gobi", "ec")}),
        ),
        seeds=1,
        maps={
            "KeyCorridorS5R3/gobi": (3_500_000, 7_000_000),
            "KeyCorridorS5R3/noveld": (3_500_000, 7_000_000, 11_000_000),
            "MultiRoom-N7-S8/gobi": (1_000_000, 2_000_000, 4_000_000),
            "MultiRoom-N7-S8/ec": (1_000_000, 2_000_000, 4_000_000),
        },
    ),
    "wallclock": Study(
        "how long 10 million frames take with NovelD and with GoBI",
        f"the paper's 5.46 and 10.65 hours, a ratio of {PAPER_RATIO:g}",
        crossed((N7,), {name: {"reward": name, "frames": 10_000_000} for name in ("noveld", "gobi")}),
        seeds=1,
    ),
    "noisy": Study(
        "every reward where a cell changes its colour at random, and two of them where none does",
        "",
        (
            *crossed((NOISY,), {name: {"reward": name} for name in REWARDS}),
            *crossed((N7,), {name: {"reward": name} for name in ("gobi", "noveld")}),
        ),
    ),
    "noisy-laptop": Study(
        "every reward on four rooms, with a cell that changes its colour at random and without",
        "",
        crossed((NOISY_N4, N4), {name: {"reward": name, "frames": 1_000_000} for name in REWARDS}),
    ),
    "fair": Study(
        "GoBI without free looks around: its world reads the view alone, or each look counts as a frame",
        "",
        crossed(
            (N7, S3),
            {
                "panorama": {"world_reads": "panorama"},
                "view": {"world_reads": "view"},
                "noveld": {"reward": "noveld"},
            },
        ),
        peeks="both",
    ),
    "tuned": Study(
        "every method with the same multiples of its own lambda and the same rho",
        "",
        searches.tuned(N7, ("gobi", "noveld", "ride", "rnd", "count", "ec")),
        seeds=2,
        axes=("times its lambda", "rho"),
    ),
    "ec-grid": Study(
        "episodic curiosity with several betas and thresholds",
        "the grid search that the paper mentions without its values",
        searches.curiosity(N7),
        seeds=2,
        axes=("beta", "threshold"),
    ),
    "dmc": Study(
        "GoBI and the baselines on control tasks",
        "the figure of training curves on DeepMind Control",
        crossed(
            tuple(CONTROL_TASKS), {name: {"reward": name} for name in ("gobi", "re3", "icm", "rnd", "none")}
        ),
        seeds=5,
    ),
    "dmc-search": Study(
        "how many random futures GoBI imagines on control tasks, and how many steps ahead",
        "the searches for n and k, of which the paper tells the values and what came out best",
        searches.imagined({PENDULUM: 3, HOPPER: 1}),
        seeds=5,
    ),
}
