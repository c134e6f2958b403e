"""Checkpoints: what goes in comes out bit for bit, and no damage, full disk or killed writer gets by."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from gobi.errors import GobiError
from gobi.training import checkpoints, files, trees

DTYPES = (
    np.bool_, np.uint8, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.float16, np.float32, np.float64,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
)  # fmt: skip


class Record(eqx.Module):
    weights: dict[str, Any]
    pair: tuple[Any, ...]
    keys: Any
    size: int = eqx.field(static=True)


def record(seed: int = 0) -> Record:
    key = jax.random.key(seed)
    return Record(
        weights={"a": jax.random.normal(key, (3, 4)), "a/b": jnp.arange(5, dtype=jnp.uint32)},
        pair=(jnp.bool_(True), jnp.array([1.5, -2.25], jnp.bfloat16), np.arange(3, dtype=np.int64), None),
        keys={"one": key, "many": jax.random.split(key, (2, 3)), "rbg": jax.random.key(seed, impl="rbg")},
        size=7,
    )


def raw(leaf: Any) -> tuple[Any, ...]:
    """A leaf as bytes, so that NaNs and negative zeros count."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return (str(jax.random.key_impl(leaf)), np.asarray(jax.random.key_data(leaf)).tobytes(), leaf.shape)
    return (type(leaf) is np.ndarray, leaf.dtype.name, leaf.shape, np.asarray(leaf).tobytes())


def assert_same(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert [raw(leaf) for leaf in jax.tree.leaves(a)] == [raw(leaf) for leaf in jax.tree.leaves(b)]


# Round trips


def test_a_record_with_keys_bfloat16_and_static_fields_comes_back_bit_for_bit(tmp_path):
    path = checkpoints.save(tmp_path, record(1), {"frames": 3200})
    assert path.name == "000000003200"
    assert_same(checkpoints.load(path, record(2)), record(1))


def test_shapes_alone_are_enough_to_restore_into(tmp_path):
    tree = jax.tree.map(lambda leaf: jnp.array(leaf) if isinstance(leaf, np.ndarray) else leaf, record(1))
    path = checkpoints.save(tmp_path, tree, {"frames": 0})
    like = jax.eval_shape(lambda: tree)
    assert_same(checkpoints.load(path, like), tree)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_arrays_of_any_dtype_shape_and_memory_order_come_back_bit_for_bit(data):
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = int(np.prod(shape)) * dtype.itemsize
    content = data.draw(st.binary(min_size=count, max_size=count))
    if dtype == np.bool_:
        content = bytes(byte & 1 for byte in content)
    array = np.frombuffer(content, dtype).reshape(shape)
    for turned in (array, array.T, array[..., ::-1] if array.ndim else array, np.asfortranarray(array)):
        packed, about = trees.pack({"x": [turned]})
        restored = trees.unpack(packed, json.loads(json.dumps(about)), {"x": [turned]}, "memory")
        assert_same(restored, {"x": [turned]})


def test_safetensors_alone_would_save_a_turned_array_wrong():
    turned = np.arange(6).reshape(2, 3).T
    assert (safetensors.numpy.load(safetensors.numpy.save({"x": turned}))["x"] != turned).any()


def test_numbers_are_restored_and_functions_are_taken_from_the_like(tmp_path):
    tree = {"step": 3, "rate": 0.1, "on": True, "net": eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))}
    like = {"step": 0, "rate": 0.0, "on": False, "net": eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(1))}
    restored = checkpoints.load(checkpoints.save(tmp_path, tree, {"frames": 1}), like)
    assert (restored["step"], restored["rate"], restored["on"]) == (3, 0.1, True)
    assert eqx.tree_equal(restored["net"], tree["net"])


def test_what_is_restored_outlives_a_donation(tmp_path):
    like = {"x": jnp.zeros(1000)}
    path = checkpoints.save(tmp_path, {"x": jnp.arange(1000.0)}, {"frames": 1})
    first, second = checkpoints.load(path, like), checkpoints.load(path, like)
    jax.jit(lambda tree: {"x": tree["x"] * 2}, donate_argnums=0)(first)
    assert (np.asarray(second["x"]) == np.arange(1000)).all()


def test_facts_come_back_as_json_has_them(tmp_path):
    facts = {"frames": np.int64(64), "recipe": {"digest": "ab"}, "tables": (1, 2), "seconds": np.float32(0.5)}
    path = checkpoints.save(tmp_path, {}, facts)
    expected = {"frames": 64, "recipe": {"digest": "ab"}, "tables": [1, 2], "seconds": 0.5}
    assert checkpoints.facts(path) == expected
    weights = checkpoints.save_weights(tmp_path / "w.safetensors", {}, facts)
    assert checkpoints.facts(weights) == expected


@pytest.mark.parametrize("leaf", [np.ones(2, np.complex128), np.array(["text"]), np.array([object()])])
def test_what_cannot_be_stored_is_named_before_anything_is_written(tmp_path, leaf):
    with pytest.raises(GobiError, match=r"the leaf \['x'\] cannot be saved: it is"):
        checkpoints.save(tmp_path, {"x": leaf}, {"frames": 1})
    assert list(tmp_path.iterdir()) == []


# Another tree


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": jnp.zeros((3, 5))}, r"the leaf \['a'\] is float32\[3, 4\] there and float32\[3, 5\] here"),
        ({"a": jnp.zeros((3, 4), jnp.int32)}, r"is float32\[3, 4\] there and int32\[3, 4\] here"),
        ({"b": jnp.zeros((3, 4))}, r"it lacks \['b'\], float32\[3, 4\]"),
        ({"a": jnp.zeros((3, 4)), "b": 1, "c": 2}, r"it lacks \['b'\], a Python int and 1 more"),
        ({}, r"it has besides \['a'\], float32\[3, 4\]"),
        ({"a": 1.0}, r"is float32\[3, 4\] there and a Python float here"),
        (
            {"a": jax.ShapeDtypeStruct((3, 4), jnp.bfloat16)},
            r"there and bfloat16\[3, 4\] here",
        ),
    ],
)
def test_another_tree_is_refused_with_the_leaf_and_both_shapes(tmp_path, like, message):
    path = checkpoints.save(tmp_path, {"a": jnp.ones((3, 4))}, {"frames": 1})
    with pytest.raises(GobiError, match=message):
        checkpoints.load(path, like)


def test_another_kind_of_random_key_is_refused(tmp_path):
    path = checkpoints.save(tmp_path, {"key": jax.random.key(0, impl="rbg")}, {"frames": 1})
    with pytest.raises(GobiError, match=r"key<rbg>\[\] there and key<fry>\[\] here"):
        checkpoints.load(path, {"key": jax.random.key(0)})


# Damage

TREE = {"x": np.arange(100.0)}


@pytest.fixture
def two(tmp_path) -> tuple[Path, Path]:
    """Two checkpoints, the older one first."""
    return tuple(checkpoints.save(tmp_path, TREE, {"frames": frames}) for frames in (1600, 3200))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", [checkpoints.ARRAYS, checkpoints.FACTS, checkpoints.MANIFEST])
def test_a_flipped_bit_anywhere_is_refused_and_the_one_before_is_offered(two, name):
    old, new = two
    whole = (new / name).read_bytes()
    for place in random.Random(0).sample(range(len(whole)), 40):
        flip(new / name, place)
        with pytest.raises(GobiError, match=r"altered|truncated") as refused:
            checkpoints.load(new, TREE)
        assert "--checkpoint 000000001600" in str(refused.value)
        (new / name).write_bytes(whole)
    assert_same(checkpoints.load(new, TREE), TREE)
    assert_same(checkpoints.load(checkpoints.named(old.parent, "000000001600"), TREE), TREE)


def test_safetensors_alone_would_load_a_flipped_bit():
    content = bytearray(safetensors.numpy.save({"x": np.ones(3)}))
    content[-1] ^= 1
    assert (safetensors.numpy.load(bytes(content))["x"] != np.ones(3)).any()


def test_a_truncated_or_missing_file_is_told_by_name(two):
    arrays = two[1] / checkpoints.ARRAYS
    whole = arrays.read_bytes()
    for kept in (0, 1, 8, len(whole) // 2, len(whole) - 1):
        arrays.write_bytes(whole[:kept])
        with pytest.raises(GobiError, match=f"{checkpoints.ARRAYS} is truncated: {kept} of"):
            checkpoints.load(two[1], TREE)
    arrays.unlink()
    with pytest.raises(GobiError, match=f"{checkpoints.ARRAYS} is missing"):
        checkpoints.latest(two[1].parent)


def test_a_damaged_newest_one_is_never_passed_over_silently(two):
    flip(two[1] / checkpoints.ARRAYS, -1)
    with pytest.raises(GobiError, match=r"3200/arrays.safetensors is altered.*--checkpoint 0+1600"):
        checkpoints.latest(two[0].parent)


def test_without_a_manifest_a_folder_is_no_checkpoint(two):
    (two[1] / checkpoints.MANIFEST).unlink()
    assert checkpoints.latest(two[0].parent) == two[0]
    with pytest.raises(GobiError, match="is not a checkpoint"):
        checkpoints.load(two[1], TREE)


def test_an_unknown_name_is_refused_with_those_that_exist(two):
    with pytest.raises(GobiError, match=r"no checkpoint '7' in .*; there are: 000000001600, 000000003200"):
        checkpoints.named(two[0].parent, "7")


def test_before_the_first_checkpoint_there_is_no_latest(tmp_path):
    assert checkpoints.latest(tmp_path) is checkpoints.latest(tmp_path / "nowhere") is None


# What is kept


def test_the_last_two_are_kept(tmp_path):
    for frames in range(100, 600, 100):
        checkpoints.save(tmp_path, TREE, {"frames": frames})
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["000000000400", "000000000500"]


def test_those_of_a_run_that_was_taken_up_earlier_go_away(two):
    checkpoints.save(two[0].parent, TREE, {"frames": 2000})
    assert [path.name for path in checkpoints.available(two[0].parent)] == ["000000001600", "000000002000"]


def test_saving_at_the_same_frames_replaces(two):
    checkpoints.save(two[0].parent, {"x": np.zeros(100)}, {"frames": 3200})
    assert_same(checkpoints.load(two[1], TREE), {"x": np.zeros(100)})
    assert checkpoints.available(two[0].parent) == list(two)


# Full disks


def full_after(monkeypatch, files_written: int) -> None:
    """The disk is full when so many files were written; half of the next one fits."""
    written = []

    def write(path: Path, content: bytes) -> None:
        if len(written) == files_written:
            path.write_bytes(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        path.write_bytes(content)

    monkeypatch.setattr(checkpoints, "write_synced", write)
    monkeypatch.setattr(files, "write_synced", write)


@pytest.mark.parametrize("files_written", [0, 1, 2])
def test_a_full_disk_leaves_the_checkpoints_before_and_nothing_half(two, monkeypatch, files_written):
    folder = two[0].parent
    full_after(monkeypatch, files_written)
    with pytest.raises(GobiError, match=r"could not write .*000000004800: the disk is full; .* untouched"):
        checkpoints.save(folder, TREE, {"frames": 4800})
    assert sorted(folder.iterdir()) == list(two)
    assert_same(checkpoints.load(two[1], TREE), TREE)


def test_a_full_disk_while_replacing_keeps_the_one_that_was_there(two, monkeypatch):
    full_after(monkeypatch, 1)
    with pytest.raises(GobiError, match="the disk is full"):
        checkpoints.save(two[0].parent, {"x": np.zeros(100)}, {"frames": 3200})
    assert_same(checkpoints.load(two[1], TREE), TREE)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_device_that_is_full_is_told_as_such():
    with pytest.raises(GobiError, match="the disk is full"), files.disk_errors("it"):
        files.write_synced(Path("/dev/full"), b"x")


# Killed writers

WRITER = """
import sys
from pathlib import Path
import numpy as np
from gobi.training import checkpoints
folder, start = Path(sys.argv[1]), int(sys.argv[2])
for frames in range(start, start + 100_000):
    tree = {"x": np.full(50_000, frames), "y": [np.full(7, frames, np.uint8)]}
    checkpoints.save(folder, tree, {"frames": frames})
    print(frames, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint_and_no_lost_one(tmp_path):
    draw = random.Random(0)
    like = {"x": np.zeros(50_000, np.int64), "y": [np.zeros(7, np.uint8)]}
    start = 0
    for _ in range(5):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert int(writer.stdout.readline()) == start
            time.sleep(draw.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            told = [start, *map(int, writer.stdout.read().split("\n")[:-1])]
        path = checkpoints.latest(tmp_path)
        assert path is not None
        frames = checkpoints.facts(path)["frames"]
        assert int(path.name) == frames >= told[-1]
        assert frames <= told[-1] + 1
        restored = checkpoints.load(path, like)
        assert (restored["x"] == frames).all()
        assert (restored["y"][0] == frames % 256).all()
        start = frames + 1
    checkpoints.save(tmp_path, like, {"frames": start})
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("ending", ["writing", "removing"])
def test_what_a_killed_writer_left_is_never_taken_for_a_checkpoint_and_goes_away(two, ending):
    folder = two[0].parent
    two[1].rename(folder / f".{two[1].name}.{ending}")
    assert checkpoints.latest(folder) == two[0]
    checkpoints.save(folder, TREE, {"frames": 4800})
    assert [path.name for path in sorted(folder.iterdir())] == ["000000001600", "000000004800"]


def test_readers_leave_a_draft_alone_since_its_writer_may_be_at_work(two):
    draft = two[0].parent / ".000000004800.writing"
    draft.mkdir()
    checkpoints.load(checkpoints.latest(two[0].parent) or two[0], TREE)
    assert draft.exists()


# Weights alone


def test_weights_come_back_and_damage_to_either_file_is_refused(tmp_path):
    path = checkpoints.save_weights(tmp_path / "sub" / "policy.safetensors", record(3), {"frames": 5})
    assert_same(checkpoints.load_weights(path, record(0)), record(3))
    assert sorted(file.name for file in path.parent.iterdir()) == ["policy.json", "policy.safetensors"]
    for file in path.parent.iterdir():
        whole = file.read_bytes()
        for place in random.Random(0).sample(range(len(whole)), 30):
            flip(file, place)
            with pytest.raises(GobiError, match="altered"):
                checkpoints.load_weights(path, record(0))
            file.write_bytes(whole)


@pytest.mark.parametrize("files_written", [0, 1])
def test_a_full_disk_while_replacing_weights_keeps_those_that_were_there(
    tmp_path, monkeypatch, files_written
):
    path = checkpoints.save_weights(tmp_path / "world.safetensors", TREE, {})
    full_after(monkeypatch, files_written)
    with pytest.raises(GobiError, match="the disk is full"):
        checkpoints.save_weights(path, {"x": np.zeros(100)}, {})
    assert_same(checkpoints.load_weights(path, TREE), TREE)
    assert len(list(tmp_path.iterdir())) == 2


def test_weights_without_their_json_count_as_not_there(tmp_path):
    path = checkpoints.save_weights(tmp_path / "world.safetensors", TREE, {})
    path.with_suffix(".json").unlink()
    with pytest.raises(GobiError, match=r"no weights at .*: world.json is missing"):
        checkpoints.load_weights(path, TREE)


@pytest.mark.parametrize("moved", [0, 1])
def test_weights_killed_between_two_moves_are_never_taken_for_a_pair(tmp_path, monkeypatch, moved):
    path = checkpoints.save_weights(tmp_path / "world.safetensors", TREE, {})
    real, done = Path.replace, []

    def killed(draft: Path, place: Path) -> Path:
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(place)
        return real(draft, place)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save_weights(path, {"x": np.zeros(100)}, {})
    with pytest.raises(GobiError, match="no weights"):
        checkpoints.load_weights(path, TREE)


def test_drafts_that_killed_writers_left_go_away_but_not_those_of_others_at_work(tmp_path):
    old, recent = tmp_path / ".card.json.1.writing", tmp_path / ".card.json.2.writing"
    for draft in (old, recent):
        draft.touch()
    os.utime(old, (0, 0))
    files.write_whole(tmp_path / "card.json", b"{}")
    assert sorted(tmp_path.iterdir()) == [recent, tmp_path / "card.json"]


def test_a_wrong_name_for_weights_is_refused(tmp_path):
    with pytest.raises(GobiError, match=r"must end in \.safetensors, got 'world.npz'"):
        checkpoints.save_weights(tmp_path / "world.npz", TREE, {})


def test_nothing_in_a_checkpoint_is_a_pickle(two):
    assert sorted(path.name for path in two[0].iterdir()) == sorted(
        [checkpoints.ARRAYS, checkpoints.FACTS, checkpoints.MANIFEST]
    )
    for name in (checkpoints.FACTS, checkpoints.MANIFEST):
        json.loads((two[0] / name).read_bytes())
    safetensors.numpy.load_file(two[0] / checkpoints.ARRAYS)
