"""A recipe: every setting of a run on a grid in one flat, frozen record; and either kind from JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from gobi.envs import host
from gobi.envs.dmc.tasks import PREFIX
from gobi.errors import GobiError
from gobi.rewards import own, registry
from gobi.rewards.count import Count
from gobi.rewards.reward import ON_GRIDS, check_views
from gobi.training.any_recipe import AnyRecipe, differences, later
from gobi.training.control.recipe import ControlRecipe
from gobi.training.files import parse_json
from gobi.training.host.recipe import HostRecipe
from gobi.training.learner_settings import refuse_what_the_learner_cannot
from gobi.worlds.erasure import Erase

__all__ = ["AnyRecipe", "Recipe", "differences", "from_json", "kind_of", "read_settings"]

Size = Literal["paper", "coded", "compact"]


MOST_STEPS, MOST_LEVELS, MOST_CODES, MOST_SNAPSHOTS = 2**26, 2**24, 2**30, 10_000
"""Far more than any device holds: a recipe that was damaged is refused, not tried."""


@dataclasses.dataclass(frozen=True)
class Recipe(AnyRecipe):
    """What a run does. Numbers that only scale something can be changed without compiling again.

    The task and its length
        task:                the task's id.
        recipe:              the name of the recipe that this one started from.
        frames:              environment steps of all lanes together, pre-training not counted.

    The total reward is extrinsic * task reward + coefficient * (1 - decay) ** frames * bonus, clipped
        reward:              the intrinsic reward; `gobi rewards` lists them; or your own, FILE.py:CLASS.
        reward_options:      of rewards that have some, such as alpha=0.4,norm=squared.
        coefficient:         lambda.
        decay:               rho.
        decay_by:            the exponent: frames of all lanes (code), or episodes times their longest length
                             (Algorithm 1).
        extrinsic:           weight of the task's own reward; 0 explores without a task.
        clip:                the total is clipped to this size; 0 leaves it as it is.

    Reachability
        credit:              a step earns what its new state adds (arrival: equation 1, code) or what that
                             which it left had added (departure: Algorithm 1).
        imagined_actions:    how many of the seven actions are imagined: 6 leaves out `done` (code), 7 all.
        sampled_actions:     imagine so many random actions instead of all; 0 is all.
        steps:               how many steps ahead (k); 0 imagines nothing, as a control.
        erase_movable:       take keys, balls and boxes out of what is hashed (code, on ObstructedMaze;
                             ours with PPO, on every task).
        erase_carried:       with erase_movable, also what the agent carries (code); ours with PPO keeps it.
        skip_executed:       the code's rule on actions already executed from an equal observation.
        hash:                exact codes, or SimHash with `hash_bits` bits.
        hash_bits:           bits of a SimHash code.

    The lifelong factor
        lifelong:            the reward that reachability is multiplied with; the paper's is count.
        lifelong_options:    its options, written like `reward_options`.
        counts:              one count for each environment (code) or one for all (text).
        count_room:          codes that the table has room for to begin with.

    The world
        world:               the simulator itself, or a learned model.
        world_reads:         what the model sees: the panorama, which takes three looks that the task does not
                             grant; or the agent's own view alone.
        model:               its architecture: ours (copying), of the text, of the code, or generative.
        model_size:          the widths of the paper, or for a laptop compact or narrow ones.
        model_noise:         the code's noise at inference.
        model_samples:       futures drawn per action from a generative model.
        world_mode:          fixed after pre-training, fine-tuned while training, or learned online.
        pretrain_frames:     random steps that the model is trained on beforehand.
        pretrain_epochs:     passes over them; 0 leaves the model untrained, as a control.
        pretrain_rate:       learning rate of Adam, then, and while it learns online from scratch.
        finetune_rate:       learning rate while it is fine-tuned.
        pretrain_schedule:   constant, or falling to zero like a cosine over the epochs.

    The learner
        learner:             impala, one update per rollout; or ppo, several; `gobi learners` lists them.
        network:             the policy: of the text, of the code, or compact.
        num_envs:            lanes, which is also the batch.
        unroll:              steps between updates.
        learning_rate:       of RMSProp, or of PPO's Adam.
        learning_rate_decay: to zero, or none.
        schedule_frames:     the frames over which it falls; 0 takes those of the run. With more, a run ends
                             before the rate does; with fewer, it learns nothing more after them.
        max_grad_norm:       gradients are scaled down to this norm.
        discount:            gamma.
        entropy_cost:        weight of the policy's entropy.
        entropy_decay:       to zero with the learning rate (linear), or none.
        value_cost:          weight of the value loss.
        timeouts:            a truncated episode ends with value 0 (terminal, code) or goes on (bootstrap).
        precision:           of the matrix products; weights and optimiser stay float32.

    PPO only
        core:                what remembers: an LSTM, or a minGRU, which has no product inside its recurrence.
        epochs:              passes over each rollout.
        minibatches:         gradient steps in each pass, on whole environments.
        gae_lambda:          of the advantages.
        clip_ratio:          how far the ratio of new and old probability is followed.
        values:              two: one for the task's reward and one for the bonus; or one for their sum.
        bonus_discount:      gamma of the bonus.
        bonus_ends:          the bonus's value ends with the episode, or goes on into the next.
        scale_bonus:         the bonus is divided by the running deviation of its discounted sum.
        scale_advantages:    each value's advantages are divided by their deviation before they are added.
        imitation_rows:      rows of rollouts kept for self-imitation, the latest that earned something.
        imitation_cost:      weight of self-imitation in the loss.

    The run
        bank:                levels kept ready.
        snapshots:           policies kept along the way, evenly spaced, for heatmaps.
    """

    reward: str = "gobi"
    reward_options: str = ""
    coefficient: float = 0.01
    decay: float = 6e-7
    decay_by: Literal["frames", "episodes"] = "frames"
    extrinsic: float = 1.0
    clip: float = 1.0

    credit: Literal["arrival", "departure"] = "arrival"
    imagined_actions: Literal[6, 7] = 6
    sampled_actions: int = 0
    steps: int = 1
    erase_movable: bool = False
    erase_carried: bool = later(True)
    skip_executed: bool = False
    hash: Literal["exact", "simhash"] = "exact"
    hash_bits: int = 50

    lifelong: str = "count"
    lifelong_options: str = ""
    counts: Literal["per_env", "shared"] = "per_env"
    count_room: int = 2**21

    world: Literal["learned", "real"] = "learned"
    world_reads: Literal["panorama", "view"] = "panorama"
    model: Literal["copying", "written", "coded", "generative"] = "copying"
    model_size: Literal["paper", "compact", "narrow"] = "paper"
    model_noise: bool = False
    model_samples: int = 1
    world_mode: Literal["fixed", "finetuned", "online"] = "fixed"
    pretrain_frames: int = 100_000
    pretrain_epochs: int = 10
    pretrain_rate: float = 1e-3
    finetune_rate: float = 1e-4
    pretrain_schedule: Literal["constant", "cosine"] = "cosine"

    network: Size = "paper"
    num_envs: int = 32
    unroll: int = 100
    learning_rate: float = 1e-4
    learning_rate_decay: Literal["linear", "none"] = "linear"
    schedule_frames: int = later(0)
    entropy_decay: Literal["linear", "none"] = later("none")
    learner: str = later("impala")
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
    imitation_rows: int = later(0)
    imitation_cost: float = later(0.3)
    max_grad_norm: float = 40.0
    discount: float = 0.99
    entropy_cost: float = 0.0005
    value_cost: float = 0.5
    timeouts: Literal["terminal", "bootstrap"] = "terminal"
    precision: Literal["float32", "bfloat16"] = "float32"

    bank: int = 1024
    snapshots: int = 5

    def __post_init__(self):
        super().__post_init__()
        if own.is_own(self.reward):
            # Its file is opened when it is trained: who only looks at a run need not have it.
            registry.find(self.reward)
        else:
            registry.options(self.reward, self.reward_options)
        registry.factor_options(self.lifelong, self.lifelong_options)
        self._refuse_unseen(self.reward, self.reward_options)
        self._refuse_unseen(self.lifelong, self.lifelong_options)
        self.refuse_below(
            1, "frames", "num_envs", "unroll", "bank", "model_samples", "count_room", "hash_bits"
        )
        for name, most in (("bank", MOST_LEVELS), ("count_room", MOST_CODES), ("snapshots", MOST_SNAPSHOTS)):
            if getattr(self, name) > most:
                raise GobiError(f"{name} must be at most {most}, got {getattr(self, name)}")
        if self.frames_per_update > MOST_STEPS:
            raise GobiError(
                f"num_envs x unroll, the steps of a rollout, must be at most {MOST_STEPS}, "
                f"got {self.num_envs} x {self.unroll}"
            )
        self.refuse_below(
            0, "coefficient", "decay", "extrinsic", "clip", "steps", "sampled_actions", "learning_rate"
        )
        self.refuse_below(0, "entropy_cost", "value_cost", "pretrain_frames", "pretrain_epochs", "snapshots")
        self.refuse_below(0, "discount", "max_grad_norm", "pretrain_rate", "finetune_rate", "schedule_frames")
        refuse_what_the_learner_cannot(self)
        if self.schedule_frames and self.learning_rate_decay == "none":
            raise GobiError("schedule_frames is how long the rate falls: not with learning_rate_decay=none")
        if self.world == "real" and self.sampled_actions:
            raise GobiError("the simulator imagines every action: sampled_actions needs a learned world")
        if self.world_reads == "view" and self.world == "real":
            raise GobiError("the simulator reads the state itself: world_reads=view needs a learned world")
        if self.world_reads == "view" and self.steps > 1:
            raise GobiError(
                f"{self.steps} steps ahead are imagined by way of panoramas: world_reads=view needs steps=1"
            )
        if (
            self.world == "learned"
            and self.world_mode != "online"
            and self.imagines
            and not self.pretrain_frames
        ):
            raise GobiError("a learned world needs pretrain_frames, or world_mode=online")

    def _refuse_unseen(self, reward: str, options: str) -> None:
        """Refuses a reward that reads what a grid does not show, or not in the shape that it is coded in."""
        if registry.find(reward).make is None:
            return
        made = registry.build(reward, registry.options(reward, options))
        check_views(made, ON_GRIDS)
        if self.hash == "simhash" and isinstance(made, Count) and made.view != "observation":
            raise GobiError(
                f"hash=simhash codes the agent's own view: counting the view {made.view} needs hash=exact"
            )

    @property
    def imagines(self) -> bool:
        """Whether the reward needs a world."""
        return registry.find(self.reward).imagines and self.steps > 0

    @property
    def erased(self) -> Erase:
        """What is taken out of views before they are hashed."""
        if self.erase_movable and not self.erase_carried:
            return "lying"
        return self.erase_movable

    @property
    def frames_per_update(self) -> int:
        """Steps of all lanes between two updates."""
        return self.num_envs * self.unroll

    @property
    def updates_per_row(self) -> int:
        """Updates that are compiled into one call, and make one row of the metrics: 250 rows or so in all."""
        needed = math.ceil(self.frames / self.frames_per_update)
        return min(max(needed // 250, 1), 64)

    @property
    def updates(self) -> int:
        """Updates in the whole run: as many as the frames need, in whole rows."""
        row = self.updates_per_row
        return math.ceil(self.frames / (self.frames_per_update * row)) * row

    @property
    def all_frames(self) -> int:
        """Steps of all lanes in the whole run."""
        return self.updates * self.frames_per_update

    @property
    def in_words(self) -> str:
        """What is worth saying when a run starts."""
        words = f"{self.task}, reward {self.reward}, recipe {self.recipe}, network {self.network}"
        return words if self.learner == "impala" else f"{words}, learner {self.learner}"


def kind_of(task: str) -> type[Recipe] | type[ControlRecipe] | type[HostRecipe]:
    """The kind of recipe that a task takes, by its id."""
    if host.is_host(task):
        return HostRecipe
    return ControlRecipe if task.startswith(PREFIX) else Recipe


def from_json(text: bytes | str) -> Any:
    """A recipe as `to_json` wrote it, of the kind that its task takes."""
    try:
        fields = parse_json(text)
        return kind_of(str(fields.get("task", ""))).from_fields(fields)
    except (ValueError, TypeError, AttributeError) as error:
        raise GobiError(f"this is not a recipe: {error}") from error


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """FIELD=VALUE words as fields of a recipe for grids, each of its field's type."""
    return Recipe.read_settings(words)
