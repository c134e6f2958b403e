"""A recipe for control: every setting of a run in one flat, frozen record."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from gobi.envs.dmc.tasks import PREFIX
from gobi.errors import GobiError
from gobi.rewards.control import registry
from gobi.training.any_recipe import AnyRecipe, later

LEARNER_OF_PICTURES = ("channels", "crop", "stack", "precision")
WORLD_OF_PICTURES = ("prior", "hashed", "world_size", "world_free_nats", "world_precision")
"""Settings of the learner, and of the world model, that mean nothing of state vectors. The size of a frame is
not among them: films have it."""


@dataclasses.dataclass(frozen=True)
class ControlRecipe(AnyRecipe):
    """What a run on a control task does.

    The task and its length
        task:                the task's id.
        recipe:              the name of the recipe that this one started from.
        frames:              environment steps of each seed; an action lasts `action_repeat` of them.
        observations:        pixels, or the state as a vector.
        action_repeat:       environment steps that an action lasts; their rewards are added up.
        image_size:          height and width of a frame.

    The total reward is extrinsic * task reward + coefficient * (1 - decay) ** agent steps * bonus
        reward:              the intrinsic reward.
        reward_options:      its options, such as k=5,form=log; gobi's are those of reachability.
        coefficient:         lambda.
        decay:               rho.
        extrinsic:           weight of the task's own reward; 0 explores without a task.
        clip:                the total is clipped to this size; 0 leaves it as it is.
        lifelong:            what reachability is multiplied with; the paper's is re3.
        lifelong_options:    its options, written like `reward_options`.
        normalised:          of gobi: the lifelong factor is divided by its own running deviation, as RE3's
                             code has it; or its product with growth is, by one of its own (product).
        paid:                the lifelong factor and the coefficient are those of the moment at which a step
                             is replayed (sampled), or at which it was made, and is stored (made).

    The world model: Dreamer's from pixels, a model of the next state from the state
        steps:               how many steps ahead it imagines (k); 0 imagines nothing, as a control.
        imagined_actions:    random futures that it imagines from each state (n).
        imagined_draws:      their actions are uniform in -1 .. 1, or normal and cut off there.
        prior:               what follows in them is drawn, or the mean.
        hashed:              the real frame, or the model's own picture of it.
        world_size:          Dreamer's widths, or narrower ones for a machine without an accelerator.
        world_rate:          learning rate of Adam.
        world_batch:         sequences of a lesson, one gradient step.
        world_length:        agent steps of a sequence.
        world_every:         agent steps in which there are `world_steps` lessons.
        world_steps:         see there.
        world_prefill:       agent steps before the first lesson.
        world_pretrain:      lessons that follow at once.
        world_lessons:       spread over the agent's steps, while those are simulated and drawn; or together
                             at the end of every `world_every` of them, as Dreamer has it.
        world_free_nats:     so far its prior may be from its posterior at no cost; below, the prior learns
                             nothing.
        world_precision:     of its matrix products.

    The learner
        batch:               transitions of an update.
        hidden:              width of the two hidden layers of actor and critics.
        channels:            of each convolution.
        crop:                height and width of what actor and critics see of a frame.
        stack:               frames that they see at once.
        learning_rate:       of Adam, for actor and critics.
        temperature:         the entropy's weight to begin with.
        temperature_rate:    the learning rate of its logarithm.
        discount:            gamma.
        target_rate:         how far the target's critics go towards the critics with each step.
        random_steps:        agent steps with uniform actions, before the first update.
        updates_every:       agent steps to an update.
        capacity:            transitions that the replay holds, if the run makes as many.
        precision:           of the encoder's matrix products; weights and optimiser stay float32.

    The run
        evaluate_every:      environment steps to an evaluation, which makes a row of the metrics.
        evaluation_episodes: episodes of an evaluation, with the mean action.
    """

    observations: Literal["pixels", "state"] = "pixels"
    action_repeat: int = 2
    image_size: int = 100

    reward: str = "gobi"
    reward_options: str = ""
    coefficient: float = 0.05
    decay: float = 1e-5
    extrinsic: float = 1.0
    clip: float = 0.0
    lifelong: str = "re3"
    lifelong_options: str = ""
    normalised: Literal["lifelong", "product"] = later("lifelong")
    paid: Literal["sampled", "made"] = later("sampled")

    steps: int = 1
    imagined_actions: int = 5
    imagined_draws: Literal["uniform", "normal"] = later("uniform")
    prior: Literal["sample", "mean"] = "sample"
    hashed: Literal["real", "reconstructed"] = "real"
    world_size: Literal["paper", "compact"] = "paper"
    world_rate: float = 6e-4
    world_batch: int = 50
    world_length: int = 50
    world_every: int = 500
    world_steps: int = 100
    world_prefill: int = 2500
    world_pretrain: int = 100
    world_lessons: Literal["spread", "together"] = "spread"
    world_free_nats: float = later(3.0)
    world_precision: Literal["float32", "bfloat16"] = "bfloat16"

    batch: int = 512
    hidden: int = 1024
    channels: int = 32
    crop: int = 84
    stack: int = 3
    learning_rate: float = 2e-4
    temperature: float = 0.1
    temperature_rate: float = 1e-3
    discount: float = 0.99
    target_rate: float = 0.01
    random_steps: int = 1000
    updates_every: int = 1
    capacity: int = 100_000
    precision: Literal["float32", "bfloat16"] = "float32"

    evaluate_every: int = 10_000
    evaluation_episodes: int = 10

    def __post_init__(self):
        super().__post_init__()
        if not self.task.startswith(PREFIX):
            raise GobiError(f"a recipe for control needs a task that begins with {PREFIX}, got '{self.task}'")
        registry.options(self.reward, self.reward_options)
        registry.factor_options(self.lifelong, self.lifelong_options)
        registry.check_observations(self.reward, self.reward_options, self.observations)
        self.refuse_below(1, "frames", "action_repeat", "image_size", "imagined_actions")
        self.refuse_below(1, "world_batch", "world_length", "world_every", "world_steps")
        self.refuse_below(1, "batch", "hidden", "channels", "crop", "stack", "random_steps", "updates_every")
        self.refuse_below(1, "evaluate_every", "evaluation_episodes")
        self.refuse_below(0, "coefficient", "decay", "extrinsic", "clip", "world_rate", "world_prefill")
        self.refuse_below(0, "world_free_nats", "steps")
        self.refuse_below(0, "world_pretrain", "learning_rate", "temperature_rate", "target_rate")
        self._refuse_what_cannot_work()

    def _refuse_what_cannot_work(self) -> None:
        if self.decay >= 1:
            raise GobiError(f"decay must be below 1, got {self.decay}")
        if not 0 <= self.discount <= 1:
            raise GobiError(f"discount must lie between 0 and 1, got {self.discount}")
        if self.temperature <= 0:
            raise GobiError(f"temperature must be above 0, got {self.temperature}")
        if self.capacity < self.batch:
            raise GobiError(f"capacity must hold a batch of {self.batch} at least, got {self.capacity}")
        if self.paid == "made" and not registry.known_when_made(self.reward, self.lifelong):
            raise GobiError(
                "icm and rnd learn from the batches that are replayed: what they pay is known then, and "
                "paid must be sampled"
            )
        if self.normalised == "product" and self.reward != "gobi":
            raise GobiError(f"normalised=product is for gobi, which is a product; '{self.reward}' is none")
        self._refuse_what_is_of_pictures()
        if self.imagines and self.world_prefill < self.world_length:
            raise GobiError(
                f"world_prefill must be at least world_length, {self.world_length}, for there to be a "
                f"sequence to learn from, got {self.world_prefill}"
            )

    def _refuse_what_is_of_pictures(self) -> None:
        if self.observations == "pixels":
            return
        if self.imagines and self.world_length < 2:
            raise GobiError("from the state world_length must be at least 2: one step to learn from")
        of_pictures: dict[str, str] = dict.fromkeys(LEARNER_OF_PICTURES, "pictures")
        if self.imagines:
            of_pictures |= dict.fromkeys(WORLD_OF_PICTURES, "a world of pictures")
        for field in dataclasses.fields(self):
            if field.name in of_pictures and (value := getattr(self, field.name)) != field.default:
                raise GobiError(
                    f"{field.name}={value} is for {of_pictures[field.name]}: train with --observations pixels"
                )

    @property
    def imagines(self) -> bool:
        """Whether the reward needs a world model."""
        return registry.find(self.reward).imagines

    @property
    def too_short_to_imagine(self) -> bool:
        """Whether the run ends before its world model has learned anything to imagine with."""
        return self.imagines and self.steps > 0 and self.agent_steps <= self.world_prefill

    @property
    def network(self) -> str:
        """What a card calls its network."""
        return f"{'rad' if self.observations == 'pixels' else 'sac'} {self.hidden}"

    @property
    def agent_steps(self) -> int:
        """Agent steps in the whole run."""
        return math.ceil(self.frames / self.action_repeat)

    @property
    def steps_per_row(self) -> int:
        """Agent steps to an evaluation, which makes a row of the metrics."""
        return math.ceil(self.evaluate_every / self.action_repeat)

    @property
    def frames_per_action(self) -> int:
        """By the recipe."""
        return self.action_repeat

    @property
    def all_frames(self) -> int:
        """Environment steps of each seed in the whole run."""
        return self.agent_steps * self.action_repeat

    @property
    def in_words(self) -> str:
        """What is worth saying when a run starts."""
        seen = "pixels" if self.observations == "pixels" else "the state"
        return f"{self.task} from {seen}, reward {self.reward}, recipe {self.recipe}"
