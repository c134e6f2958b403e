"""The zoo: agents act as they were evaluated, commands take them by name, those that ship are sound."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_entries import entry, finished_run
from made_runs import EMPTY

import gobi
from gobi.analysis import evaluation
from gobi.envs.minigrid import PAPER_TASKS, numbered_levels
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError
from gobi.training import beforehand, card, trained
from gobi.zoo import catalogue

SHIPPED = gobi.zoo.names()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("zoo")
    return entry(finished_run(place / "run"), place / "agents").folder


@pytest.fixture
def zoo(made, monkeypatch) -> Path:
    """A zoo with one agent, Empty-5x5."""
    monkeypatch.setattr(catalogue, "AGENTS", made.parent)
    return made


@pytest.fixture
def empty_zoo(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(catalogue, "AGENTS", tmp_path / "agents")


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def refused(answer: tuple[int, str, str], expected: str) -> None:
    code, out, err = answer
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert expected in err


# In Python


def test_a_greedy_agent_plays_the_episodes_of_its_evaluation(zoo):
    agent = gobi.zoo.load("Empty-5x5", greedy=True)
    agents = trained.load(zoo)
    levels = numbered_levels(agent.env, agents.level_seed, 0, 3)
    returns, lengths = evaluation.outcomes(agents, 2, levels, True, 3)
    act, step = jax.jit(agent.act), jax.jit(agent.env.step)
    for number in range(3):
        world, memory, first, total, length = nth(levels, number), agent.initial(1), True, 0.0, 0
        seen, done = agent.env.observe(world), False
        while not done:
            actions, memory = act(seen[None], jnp.array([first]), memory)
            world, timestep = step(world, actions[0])
            seen, done, first = timestep.observation, bool(timestep.done), False
            total, length = total + float(timestep.reward), length + 1
        assert (total, length) == (pytest.approx(returns[number]), lengths[number])


def test_a_sampled_agent_draws_by_its_seed_and_from_its_policy(zoo):
    agent = gobi.zoo.load("Empty-5x5")
    view = agent.env.observe(nth(numbered_levels(agent.env, 0, 0, 1), 0))
    seen, first = np.broadcast_to(view, (4000, 7, 7, 3)), np.ones(4000, bool)
    actions, after = agent.act(seen, first, agent.initial(4000, seed=1))
    same, _ = agent.act(seen, first, agent.initial(4000, seed=1))
    other, _ = agent.act(seen, first, agent.initial(4000, seed=2))
    later, _ = agent.act(seen, first, after)
    np.testing.assert_array_equal(actions, same)
    assert (np.asarray(actions) != other).any()
    assert (np.asarray(actions) != later).any()
    logits, *_ = agent.policy(view[None], jnp.array([True]), agent.policy.initial(1))
    shares = np.bincount(actions, minlength=7) / 4000
    np.testing.assert_allclose(shares, jax.nn.softmax(logits[0]), atol=0.04)


def test_where_an_episode_begins_an_agent_forgets(zoo):
    agent = gobi.zoo.load("Empty-5x5", greedy=True)
    seen = np.random.default_rng(0).integers(0, 3, (2, 7, 7, 3), np.uint8)
    _, state = agent.act(seen, [True, True], agent.initial(2))
    _, again = agent.act(seen, [True, False], state)
    leaves = zip(jax.tree.leaves(state.carry), jax.tree.leaves(again.carry), strict=True)
    close = [np.isclose(before, after).all(axis=-1) for before, after in leaves]
    forgot, went_on = np.array(close).T
    assert forgot.all()
    assert not went_on.all()


def test_an_agent_can_be_an_argument_of_a_compiled_function(zoo):
    agent = gobi.zoo.load("Empty-5x5")
    seen, first = np.zeros((3, 7, 7, 3), np.uint8), np.ones(3, bool)
    expected, _ = agent.act(seen, first, agent.initial(3))
    found, _ = jax.jit(lambda agent, *given: agent.act(*given))(agent, seen, first, agent.initial(3))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shapes", [((7, 7, 3), ()), ((2, 7, 7, 3), (3,)), ((2, 5, 5, 3), (2,)), ((), ())])
def test_observations_of_another_shape_are_refused(zoo, shapes):
    agent = gobi.zoo.load("Empty-5x5")
    observation, first = (np.zeros(shape, np.uint8) for shape in shapes)
    with pytest.raises(GobiError, match=r"acts on observations \[num_envs, 7, 7, 3\] and first \[num_envs\]"):
        agent.act(observation, first, agent.initial(2))


def test_agents_are_found_by_name_and_by_task_and_a_wrong_name_by_what_is_near(zoo):
    assert gobi.zoo.names() == ["Empty-5x5"]
    (known,) = gobi.zoo.entries()
    assert gobi.zoo.load(EMPTY).entry == known
    with pytest.raises(GobiError, match=r"^unknown agent of the zoo 'Empty5x5'; did you mean Empty-5x5\?$"):
        gobi.zoo.load("Empty5x5")
    with pytest.raises(GobiError, match=r"unknown agent of the zoo '\.\.'"):
        gobi.zoo.load("..")


def test_an_empty_zoo_says_so(empty_zoo, gobi_command):
    assert gobi.zoo.names() == []
    with pytest.raises(GobiError, match=r"^no agent 'Empty-5x5': the zoo is empty$"):
        gobi.zoo.load("Empty-5x5")
    assert gobi_command("zoo") == (0, "the zoo is empty: no trained agent ships with this gobi\n", "")


def test_a_record_that_was_altered_is_refused(zoo, tmp_path, monkeypatch):
    copied = shutil.copytree(zoo, tmp_path / "agents" / "Empty-5x5")
    record = json.loads((copied / "zoo.json").read_text())
    del record["success"]
    (copied / "zoo.json").write_text(json.dumps(record))
    monkeypatch.setattr(catalogue, "AGENTS", copied.parent)
    with pytest.raises(GobiError, match=r"is not an entry of the zoo: zoo\.json is missing or altered"):
        gobi.zoo.entries()


# On the command line


def test_commands_take_an_agent_by_name_and_write_into_the_working_folder(zoo, gobi_command, tmp_path):
    zoo.chmod(0o555)
    before = contents(zoo)
    for words, written in (
        (("evaluate", "--episodes", "4"), "Empty-5x5-evaluation-sampled-000000000200.json"),
        (("watch", "--max-frames", "2"), "Empty-5x5-episode.gif"),
        (("heatmap", "--levels", "0", "--episodes", "2"), "Empty-5x5-heatmap.png"),
        (("plot",), "curves.png"),
    ):
        code, out, err = gobi_command(words[0], "zoo/Empty-5x5", *words[1:])
        assert (code, err) == (0, "")
        assert f"wrote {written}" in out
        assert (tmp_path / written).exists()
    assert gobi_command("watch", "zoo/Empty-5x5", "--out", "films/a.png")[0] == 0
    assert (tmp_path / "films" / "a.png").exists()
    refused(gobi_command("watch", "zoo/Empty-5x5"), "Empty-5x5-episode.gif is there already")
    assert contents(zoo) == before
    zoo.chmod(0o755)


def test_compare_takes_the_run_of_an_agent_with_all_its_seeds(zoo, gobi_command):
    code, out, err = gobi_command("compare", "zoo/Empty-5x5")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[2:4] == ["1", "2"]


def test_the_table_shows_every_agent_with_its_evaluation(zoo, gobi_command):
    code, out, err = gobi_command("zoo")
    assert (code, err) == (0, "")
    known = catalogue.read(zoo)
    heading, row, *_ = out.splitlines()
    assert heading.split()[:3] == ["agent", "task", "learner"]
    assert row.split()[:5] == ["Empty-5x5", EMPTY, "impala", "200", "12"]
    assert f"{known.mean_return:.3f}" in row
    assert f"{known.success:.1%}" in row
    assert row.endswith("sampled  best of 2 seeds")


@pytest.mark.parametrize("command", ["evaluate", "watch", "heatmap", "plot", "compare", "resume"])
def test_a_wrong_name_is_told_in_one_line(zoo, gobi_command, command):
    refused(gobi_command(command, "zoo/Emty-5x5"), "'Emty-5x5'; did you mean Empty-5x5?")


def test_a_folder_of_ones_own_with_that_name_comes_first(zoo, gobi_command, tmp_path):
    (tmp_path / "zoo" / "Empty-5x5").mkdir(parents=True)
    refused(gobi_command("watch", "zoo/Empty-5x5"), "zoo/Empty-5x5 is not the folder of a run")


def test_only_the_agent_that_was_kept_is_there(zoo, gobi_command):
    refused(
        gobi_command("evaluate", "zoo/Empty-5x5", "--seed", "1"), "no agent of seed 1 in this run: it has 2"
    )
    refused(gobi_command("watch", "zoo/Empty-5x5", "--checkpoint", "200"), "no checkpoint '200'")


def test_an_agent_cannot_be_trained_on_in_the_package(zoo, gobi_command):
    before = contents(zoo)
    refused(gobi_command("resume", "zoo/Empty-5x5"), "holds a policy alone, and not what it takes to go on")
    assert contents(zoo) == before


# Those that ship


@pytest.mark.parametrize("name", SHIPPED)
def test_an_agent_that_ships_is_small_and_tells_how_it_was_trained(name):
    known = catalogue.read(catalogue.find(name))
    assert known.size <= catalogue.MOST_BYTES
    assert known.levels >= 1000
    told = card.read(known.folder / "card.json")
    assert (told.task, told.frames, bool(told.finished)) == (known.task, known.frames, True)
    for path in known.folder.glob("*.json"):
        assert '"/' not in path.read_text()
        assert " /" not in path.read_text()


@pytest.mark.parametrize("name", SHIPPED)
def test_an_agent_that_ships_has_its_world_and_plays_as_well_as_is_said(name):
    known = catalogue.read(catalogue.find(name))
    agents = trained.load(known.folder)
    assert agents.env == gobi.zoo.load(name).env
    if known.task in PAPER_TASKS or agents.recipe.imagines:
        assert beforehand.kept(known.folder, agents.recipe, agents.env) is not None
    (score,) = evaluation.evaluate(agents, 16, known.policy == "greedy").scores
    # By Hoeffding's inequality fewer come about once in 3,000 times, whatever the success rate.
    assert score.successes >= max(1, 16 * known.success - 8)
