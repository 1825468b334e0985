"""Times, numbers and prompts in one line."""

import pytest
from tessera import wording


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (2.44, "2.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3599, "59 min 59 s"),
        (3599.7, "1 h 0 min"),
        (3840, "1 h 4 min"),
        (7199, "2 h 0 min"),
        (100_000, "27 h 47 min"),
    ],
)
def test_duration(seconds, text):
    assert wording.duration(seconds) == text


def test_a_clock_has_no_tenths():
    assert [wording.clock(seconds) for seconds in (0.4, 9.6, 60)] == ["0 s", "10 s", "1 min 0 s"]


def test_counted():
    assert [wording.counted(number, "job") for number in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


def test_short():
    assert wording.short(" red\n brick\t ", 40) == "red brick"
    assert wording.short("苔" * 40, 40) == "苔" * 40
    assert wording.short("苔" * 41, 40) == "苔" * 39 + "…"
    assert wording.short("red brick wall", 5) == "red…"
    assert wording.short("\n", 5) == ""
