"""Signals: the first asks for an end with everything saved, the second ends at once."""

from __future__ import annotations

import os
import signal

import pytest

from gobi.training.stopping import Stopped, Stopping


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_stops_at_once_whichever_the_first_was(first, second):
    told: list[str] = []
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Stopping(told.append) as stopping:
        assert stopping.why() is None
        os.kill(os.getpid(), first)
        assert isinstance(stopping.why(), Stopped)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), second)
    assert len(told) == 1
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
