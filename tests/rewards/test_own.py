"""A reward of one's own in one file: what works, and what each mistake is told."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.rewards import Count, Reward, own, registry
from gobi.types import Spec, Transition

SPEC = Spec("test", (4,), "float32", num_actions=3, max_steps=10)

PLAIN = '''
import jax.numpy as jnp


class Still:
    """Pays for staying where one is, less and less."""

    def __init__(self, scale: float = 1.0, often: int = 1):
        self.scale, self.often = scale, often

    def init(self, key, spec, num_envs):
        return {"steps": 0}

    def step(self, state, transition):
        moved = jnp.abs(transition.after["observation"] - transition.before["observation"]).sum(-1)
        steps = state["steps"] + self.often
        return {"steps": steps}, self.scale * (moved == 0) / steps
'''

SUBCLASS = """
from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from gobi.rewards import Reward


class Constant(Reward):
    size: float = eqx.field(static=True, default=2.0)

    @property
    def reads(self):
        return frozenset()

    @property
    def logs(self):
        return ("constant/size",)

    def init(self, key, spec, num_envs):
        return jnp.zeros(num_envs)

    def rollout(self, state, transitions):
        return state, jnp.full_like(transitions.reward, self.size), {"constant/size": jnp.float32(self.size)}
"""


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def steps(count: int, envs: int) -> Transition:
    """A rollout in which every second step leads nowhere."""
    before = jnp.zeros((count, envs, 4))
    after = before + (jnp.arange(count) % 2)[:, None, None]
    never = jnp.zeros((count, envs), bool)
    return Transition(
        {"observation": before}, jnp.zeros((count, envs), jnp.int32), {"observation": after},
        jnp.zeros((count, envs)), never, never,
    )  # fmt: skip


def test_a_class_with_init_and_step_is_a_reward(tmp_path):
    reward = own.load(f"{written(tmp_path, PLAIN)}:Still")
    assert isinstance(reward, Reward)
    assert reward.reads == {"observation"}
    state = reward.init(jax.random.key(0), SPEC, 3)
    state, bonus, _ = jax.jit(type(reward).rollout)(reward, state, steps(4, 3))
    expected = np.array([1, 0, 1 / 3, 0], np.float32)
    np.testing.assert_allclose(bonus, np.broadcast_to(expected[:, None], (4, 3)), rtol=1e-6)
    assert int(state["steps"]) == 4


def test_a_reward_of_the_library_s_kind_keeps_its_own_rollout_and_logs(tmp_path):
    reward = own.load(f"{written(tmp_path, SUBCLASS)}:Constant", "size=3")
    state = reward.init(jax.random.key(0), SPEC, 3)
    _, bonus, logged = reward.rollout(state, steps(2, 3))
    assert (float(bonus.min()), float(bonus.max())) == (3, 3)
    assert float(logged["constant/size"]) == 3
    assert (reward.logs, reward.reads) == (("constant/size",), frozenset())
    _, one = reward.step(state, jax.tree.map(lambda part: part[0], steps(2, 3)))
    assert one.shape == (3,)


def test_options_are_arguments_of_the_class_by_their_types(tmp_path):
    name = f"{written(tmp_path, PLAIN)}:Still"
    reward = own.load(name, "scale=0.5,often=2")
    _, bonus, _ = reward.rollout(reward.init(jax.random.key(0), SPEC, 1), steps(1, 1))
    assert float(bonus[0, 0]) == 0.25
    with pytest.raises(GobiError, match=r"unknown option of .*did you mean scale"):
        own.load(name, "scal=0.5")
    with pytest.raises(GobiError, match="often must be of type int, got 'x'"):
        own.load(name, "often=x")


def test_options_may_be_objects_and_need_no_annotations_then(tmp_path):
    text = PLAIN.replace("scale: float = 1.0, often: int = 1", "scale=1.0, often=1, **others")
    name = f"{written(tmp_path, text)}:Still"
    reward = own.load(name, {"scale": np.float32(0.5), "often": 2, "anything": object()})
    _, bonus, _ = reward.rollout(reward.init(jax.random.key(0), SPEC, 1), steps(1, 1))
    assert float(bonus[0, 0]) == 0.25
    strict = f"{written(tmp_path, PLAIN, 'strict.py')}:Still"
    with pytest.raises(GobiError, match=r"unknown option of .*did you mean scale"):
        own.load(strict, {"scal": 0.5})


def test_it_can_be_looked_up_without_its_file_and_does_not_become_one_of_the_library():
    before = dict(registry.REWARDS)
    found = registry.find("nowhere.py:Mine")
    assert found.summary == "a reward of your own, in nowhere.py"
    assert (found.coefficient, found.decays, found.imagines) == (0.01, False, False)
    assert before == registry.REWARDS
    with pytest.raises(GobiError, match=r"written FILE.py:CLASS"):
        registry.find("nowhere.py")


def test_a_pinned_name_refuses_another_file(tmp_path):
    name = own.pinned(f"{written(tmp_path, PLAIN)}:Still")
    assert own.load(name)
    assert own.pinned(name) == name
    written(tmp_path, PLAIN + "# changed\n")
    with pytest.raises(GobiError, match=r"mine.py has changed since the run was started.*start a new run"):
        own.load(name)
    written(tmp_path, PLAIN)
    assert own.load(name)
    (tmp_path / "mine.py").unlink()
    with pytest.raises(GobiError, match=r"Still@\w{12} is missing: there is no"):
        own.load(name)


def test_the_same_file_is_the_same_class_however_often_it_is_loaded(tmp_path):
    name = f"{written(tmp_path, SUBCLASS)}:Constant"
    first, second = own.load(name), own.load(name)
    assert jax.tree.structure(first) == jax.tree.structure(second)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mine.py", "written FILE.py:CLASS, got 'mine.py'"),
        ("mine.py:", "written FILE.py:CLASS"),
        ("mine.py:a b", "written FILE.py:CLASS"),
        ("nowhere.py:Still", "the file of the reward nowhere.py:Still is missing"),
        ("mine.py:Stil", "unknown class of mine.py 'Stil'; did you mean Still"),
        ("mine.py:jnp", "unknown class of mine.py 'jnp'"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_in_one_line(tmp_path, monkeypatch, name, told):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, PLAIN)
    with pytest.raises(GobiError, match=told) as caught:
        own.load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("class A:\n  def init(self, key, spec, num_envs): ...", r"has no method step\(state, transition\)"),
        ("class A:\n  def step(self, state, transition): ...", r"has no method init\(key, spec, num_envs\)"),
        ("class A(", "mine.py cannot be imported: SyntaxError"),
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError: No module named"),
        (
            PLAIN.replace("class Still", "class A").replace("1.0, often", "1.0, *, much, often"),
            "could not be made",
        ),
    ],
)
def test_a_file_that_is_no_reward_is_told_in_one_line(tmp_path, text, told):
    name = f"{written(tmp_path, text)}:A"
    with pytest.raises(GobiError, match=told) as caught:
        own.load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("state, jnp.float32(1)", r"the bonus must have shape \[2\].* got \[\]"),
        ("state, transition.reward[:, None]", r"the bonus must have shape \[2\].* got \[2, 1\]"),
        ("transition.reward", "step must return the state and the bonus"),
        ("state[:, None], transition.reward", r"keep its structure.*int32\[2\] became int32\[2, 1\]"),
        ("(state, state), transition.reward", "keep its structure, shapes and dtypes"),
        ("state, transition.rewards", "A fails at its first steps: AttributeError.*rewards"),
        ("state, transition.after['panorama'].sum()", "A fails at its first steps: KeyError: 'panorama'"),
    ],
)
def test_a_mistake_in_the_shapes_is_told_before_anything_is_computed(tmp_path, returned, told):
    text = f"""
import jax.numpy as jnp
class A:
    def init(self, key, spec, num_envs):
        return jnp.zeros(num_envs, "int32")
    def step(self, state, transition):
        return {returned}
"""
    reward = own.load(f"{written(tmp_path, text)}:A")
    views = {"observation": jax.ShapeDtypeStruct((own.TRIED, 4), "float32")}
    with pytest.raises(GobiError, match=told) as caught:
        own.tried(reward, SPEC, views)
    assert "\n" not in str(caught.value)


def test_a_reward_without_mistakes_is_tried_and_returned():
    views = {"observation": jax.ShapeDtypeStruct((own.TRIED, 4), "float32")}
    reward = own.Checked(Count(), "Count")
    assert own.tried(reward, SPEC, views) is reward


def test_names_of_files_are_told_from_those_of_the_library():
    assert own.is_own("a/b.py:C")
    assert own.is_own("b.py")
    assert not own.is_own("gobi")
    assert own.short("a/b.py:C@0123") == "C"


def test_the_ten_lines_of_the_documentation_are_a_reward(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "own_reward.md"
    example = page.read_text().split("```python\n")[1].split("```")[0]
    reward = own.load(f"{written(tmp_path, example, 'surprise.py')}:Surprise")
    state = reward.init(jax.random.key(0), SPEC, 3)
    state, bonus, _ = reward.rollout(state, steps(4, 3))
    # Zeros, then ones: their mean is 1/2 after two steps, 1/3 after three and 1/2 again after four.
    np.testing.assert_allclose(bonus[:, 0], [0, 1 / 2, 1 / 3, 1 / 2], rtol=1e-5)
