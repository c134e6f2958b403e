"""A recipe for Gymnasium's tasks: every setting of a run in one flat, frozen record."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from gobi.envs import host
from gobi.errors import GobiError
from gobi.rewards import own, registry
from gobi.training.any_recipe import AnyRecipe, later
from gobi.training.learner_settings import refuse_what_the_learner_cannot


@dataclasses.dataclass(frozen=True)
class HostRecipe(AnyRecipe):
    """What a run on a task of Gymnasium's does.

    The task and its length
        task:                gym/ and the task's id; gym/MODULE:ID imports a module first.
        recipe:              the name of the recipe that this one started from.
        frames:              environment steps of all lanes together.

    The total reward is extrinsic * task reward + coefficient * (1 - decay) ** frames * bonus, clipped
        reward:              the intrinsic reward; `gobi rewards` lists them; or your own, FILE.py:CLASS.
        reward_options:      of rewards that have some, such as alpha=0.4,norm=squared.
        coefficient:         lambda.
        decay:               rho.
        extrinsic:           weight of the task's own reward; 0 explores without a task.
        clip:                the total is clipped to this size; 0 leaves it as it is.

    The learner
        learner:             impala or ppo; `gobi learners` lists them.
        network:             feedforward, or recurrent, for tasks that do not show everything.
        units:               width of its layers.
        num_envs:            lanes, which is also the batch.
        unroll:              steps between updates.
        learning_rate:       of RMSProp (impala) or Adam (ppo).
        learning_rate_decay: to zero over the run's frames, or none.
        max_grad_norm:       gradients are scaled down to this norm.
        discount:            gamma.
        entropy_cost:        weight of the policy's entropy.
        entropy_decay:       to zero with the learning rate (linear), or none.
        value_cost:          weight of the value loss.
        timeouts:            a truncated episode goes on (bootstrap) or ends with value 0 (terminal).

    IMPALA alone
        passes:              gradient steps on each unroll; V-trace corrects for the policy moving on.
        scale_values:        values are in units of their running scale (PopArt).
        standardise:         advantages have mean 0 and deviation 1, and losses are means over time.

    PPO alone
        core:                what remembers in a recurrent network: an lstm or a mingru.
        epochs:              passes over each rollout.
        minibatches:         gradient steps in each pass, on whole environments.
        gae_lambda:          of the advantages.
        clip_ratio:          how far the ratio of new and old probability may go from 1.
        values:              two: one for the task and one for the bonus; or one for their sum.
        bonus_discount:      gamma of the bonus.
        bonus_ends:          whether the bonus's value ends with an episode.
        scale_bonus:         divide the bonus by the running deviation of its discounted sum.
        scale_advantages:    divide each value's advantages by their deviation before they are added.
        scale_rewards:       divide the task's rewards likewise, where that deviation is above 1.
        imitation_rows:      rows of rollouts kept for self-imitation, the latest that earned something.
        imitation_cost:      weight of self-imitation in the loss.
    """

    reward: str = "gobi"
    reward_options: str = ""
    coefficient: float = 0.01
    decay: float = 0.0
    extrinsic: float = 1.0
    clip: float = 0.0

    learner: str = later("impala")
    network: Literal["feedforward", "recurrent"] = "feedforward"
    units: int = 64
    num_envs: int = 16
    unroll: int = 32
    passes: int = 4
    scale_values: bool = later(True)
    standardise: bool = later(True)
    core: Literal["lstm", "mingru"] = later("lstm")
    epochs: int = later(1)
    minibatches: int = later(1)
    gae_lambda: float = later(0.95)
    clip_ratio: float = later(0.2)
    values: Literal["one", "two"] = later("one")
    bonus_discount: float = later(0.99)
    bonus_ends: bool = later(False)
    scale_bonus: bool = later(False)
    scale_advantages: bool = later(False)
    scale_rewards: bool = later(False)
    imitation_rows: int = later(0)
    imitation_cost: float = later(0.3)
    learning_rate: float = 1e-3
    learning_rate_decay: Literal["linear", "none"] = "linear"
    max_grad_norm: float = 1.0
    discount: float = 0.99
    entropy_cost: float = 0.01
    entropy_decay: Literal["linear", "none"] = later("none")
    value_cost: float = 0.5
    timeouts: Literal["bootstrap", "terminal"] = "bootstrap"

    def __post_init__(self):
        super().__post_init__()
        if not host.is_host(self.task):
            raise GobiError(
                f"a recipe for Gymnasium needs a task that begins with {host.PREFIX}, got '{self.task}'"
            )
        if own.is_own(self.reward):
            # Its file is opened when it is trained: who only looks at a run need not have it.
            registry.find(self.reward)
        else:
            registry.options(self.reward, self.reward_options)
        self.refuse_below(1, "frames", "units", "num_envs", "unroll", "passes")
        self.refuse_below(0, "coefficient", "decay", "extrinsic", "clip", "learning_rate", "max_grad_norm")
        self.refuse_below(0, "discount", "entropy_cost", "value_cost")
        refuse_what_the_learner_cannot(self)

    @property
    def imagines(self) -> bool:
        """Whether the reward needs a world."""
        return registry.find(self.reward).imagines

    @property
    def frames_per_update(self) -> int:
        """Steps of all lanes between two updates."""
        return self.num_envs * self.unroll

    @property
    def updates_per_row(self) -> int:
        """Updates that make one row of the metrics: 250 rows or so in all."""
        return max(math.ceil(self.frames / self.frames_per_update) // 250, 1)

    @property
    def updates(self) -> int:
        """Updates in the whole run: as many as the frames need."""
        return math.ceil(self.frames / self.frames_per_update)

    @property
    def all_frames(self) -> int:
        """Steps of all lanes in the whole run."""
        return self.updates * self.frames_per_update

    @property
    def in_words(self) -> str:
        """What is worth saying when a run starts."""
        words = f"{self.task}, reward {self.reward}, recipe {self.recipe}, network {self.network}"
        return words if self.learner == "impala" else f"{words}, learner {self.learner}"
