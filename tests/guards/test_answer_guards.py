"""The hook *answer*: the citation guard, third parties' guards, and the gate that puts together what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from asked import WORDING

from watchkeeper import ConfigurationError, Unverified
from watchkeeper.answers.form import Form
from watchkeeper.answers.gate import MAX_MARKED, Gate, Objection
from watchkeeper.decisions import Answer, End, Push
from watchkeeper.guards.answer import AnswerGuard, Doubt, Draft, Reject
from watchkeeper.guards.citing import Citing
from watchkeeper.guards.guarded import Guarded
from watchkeeper.guards.limited import TimeLimit
from watchkeeper.ledger import Entry
from watchkeeper.messages import Event


def entry(call_id: str, productive: bool = True) -> Entry:
    made = Entry(call_id, "look", 1, 1)
    made.kind, made.productive, made.ended = "finished", productive, 5
    return made


CALLS = {"c1": entry("c1"), "c2": entry("c2", productive=False)}


def draft(text: str, value: Any = None, **more: Any) -> Draft:
    fields = {"goal": "Do it.", "calls": CALLS, "evidence": ("c1",), "typed": value is not None, **more}
    return Draft(text, value, **fields)


class Theirs:
    """A third party's guard that says what it is told to say."""

    def __init__(self, says: Any, name: str = "theirs") -> None:
        self.says = says
        self.name = name
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def answer(self, draft: Draft) -> Any:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def gate(*guards: Any, **more: Any) -> Gate:
    return Gate(guards, WORDING, **{"form": None, "reasks": 2, **more})


# -- citations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["It is so.", "It is so [call:c1].", "It is so [call:c2]."])
def test_without_being_asked_for_only_calls_that_are_not_there_are_told(text: str) -> None:
    guard = Citing(WORDING, wanted=False)
    assert isinstance(guard, AnswerGuard)
    assert guard.answer(draft(text)) is None


def test_a_call_that_is_made_up_is_told_whether_citations_are_asked_for_or_not() -> None:
    for wanted in (False, True):
        doubt = Citing(WORDING, wanted=wanted).answer(draft("It is so [call:c1, c9]."))
        assert doubt is not None
        assert doubt.claims == (Unverified("It is so.", "no_such_call", "c9"),)
        assert "[call:c9] is no call of this run" in doubt.message


def test_where_they_are_asked_for_what_found_nothing_does_not_do() -> None:
    doubt = Citing(WORDING, wanted=True).answer(draft("It is so [call:c2]. I guess."))
    assert doubt is not None
    assert [(one.why, one.call_id) for one in doubt.claims] == [("not_productive", "c2"), ("uncited", "")]
    assert "[call:c2] found nothing" in doubt.message


def test_an_answer_that_cites_nothing_goes_back_if_there_is_something_to_cite() -> None:
    guard = Citing(WORDING, wanted=True)
    doubt = guard.answer(draft("It is so. Or not."))
    assert doubt is not None
    assert "of [call:c1]" in doubt.message
    assert [one.claim for one in doubt.claims] == ["It is so.", "Or not."]
    doubt = guard.answer(draft("I do not know.", evidence=()))
    assert doubt == Doubt((Unverified("I do not know.", "uncited"),))  # it is marked, and does not go back


def test_sentences_without_a_citation_beside_others_are_marked_only() -> None:
    doubt = Citing(WORDING, wanted=True).answer(draft("It is so [call:c1]. I guess."))
    assert doubt == Doubt((Unverified("I guess.", "uncited"),))


def test_in_a_typed_answer_only_what_cites_is_a_claim() -> None:
    guard = Citing(WORDING, wanted=True)
    assert guard.answer(draft("…", {"title": "Weather", "rain": "3 mm [call:c1]"})) is None
    doubt = guard.answer(draft("…", {"title": "Weather"}))
    assert doubt is not None
    assert doubt.message


# -- the gate ---------------------------------------------------------------------------------------------------------


def test_what_passes_is_the_answer_with_its_value() -> None:
    one = gate(Theirs(None), form=Form(int))
    value, misfit = one.read("3", lambda value: value)
    assert (value, misfit) == (3, None)
    assert one.settle(Answer("3"), 3, one.objections(draft("3", 3)), last=False) == Answer("3", value=3)


def test_whoever_objects_at_most_two_go_back() -> None:
    """Its form, a guard, a validator: they share the tries."""
    one = gate(Theirs(Reject("it is rude")), form=Form(int))
    _, misfit = one.read("three", lambda value: value)
    assert misfit is not None
    first = one.settle(Answer("three"), None, [misfit], last=False)
    second = one.settle(Answer("3"), 3, one.objections(draft("3", 3)), last=False)
    third = one.settle(Answer("3"), 3, [Objection("validators", "it is odd")], last=False)
    assert isinstance(first, Push)
    assert isinstance(second, Push)
    assert (first.by, first.rejected, first.keep) == ("form", "three", True)
    assert second.by == "theirs"
    assert "it is rude" in second.message
    assert third == End("stopped", "answer_invalid")


def test_all_that_is_said_goes_back_at_once() -> None:
    one = gate(Theirs(Reject("it is rude")), Theirs(Reject("it is long"), "other"))
    pushed = one.settle(Answer("x"), None, one.objections(draft("x")), last=False)
    assert isinstance(pushed, Push)
    assert "- it is rude\n- it is long" in pushed.message


def test_a_doubt_marks_in_the_end_and_never_ends_a_run() -> None:
    claims = (Unverified("x", "uncited"),)
    one = gate(Theirs(Doubt(claims, "it is not borne out")))
    told = [one.settle(Answer("x"), None, one.objections(draft("x")), last=False) for _ in range(3)]
    assert [type(decision) for decision in told] == [Push, Push, Answer]
    assert told[2] == Answer("x", unverified=claims)


def test_a_doubt_without_a_message_does_not_go_back() -> None:
    claims = (Unverified("x", "uncited"),)
    one = gate(Theirs(Doubt(claims)))
    assert one.settle(Answer("x"), None, one.objections(draft("x")), last=False) == Answer("x", unverified=claims)


def test_where_no_turn_is_left_nothing_goes_back() -> None:
    one = gate(reasks=2)
    assert one.settle(Answer("x"), None, [Objection("a", "no")], last=True) == End("stopped", "answer_invalid")
    claims = (Unverified("x", "uncited"),)
    assert one.settle(Answer("x"), None, [Objection("a", "no", claims)], last=True) == Answer("x", unverified=claims)


def test_marks_are_bounded() -> None:
    many = tuple(Unverified(str(n), "uncited") for n in range(500))
    one = gate(Theirs(Doubt(many)), Theirs(Doubt(many), "other"))
    answer = one.settle(Answer("x"), None, one.objections(draft("x")), last=False)
    assert isinstance(answer, Answer)
    assert len(answer.unverified) == MAX_MARKED


@pytest.mark.parametrize(
    "says",
    [KeyError("a defect"), True, "no", Reject(""), Reject(3), Doubt((), "no")],  # type: ignore[arg-type]
)
def test_a_guard_that_is_broken_lets_no_answer_pass(says: Any) -> None:
    one = gate(Theirs(says))
    (objection,) = one.objections(draft("x"))
    assert objection.final
    assert "the check theirs could not be made" in objection.message


def test_who_only_observes_is_noted() -> None:
    notes: list[dict[str, Any]] = []
    one = gate(Theirs(Reject("no")), form=Form(int), observe=("theirs", "form"), note=lambda **f: notes.append(f))
    assert one.read("three", lambda value: value) == (None, None)
    assert one.objections(draft("three")) == []
    assert [(note["by"], note["would"]) for note in notes] == [("form", "push"), ("theirs", "push")]


LIMIT = TimeLimit(1.0, "deny", lambda: 0.0, lambda **fields: None)


# -- at arm's length --------------------------------------------------------------------------------------------------


def held_at_length(theirs: Any) -> Guarded:
    return Guarded(theirs, TimeLimit(1.0, "deny", lambda: 0.0, lambda **fields: None), WORDING)


def test_a_guard_may_guard_answers_alone() -> None:
    held = held_at_length(Theirs(Reject("no")))
    assert held.at == {"answer"}
    assert held.answer(draft("x")) == Reject("no")


def test_one_that_has_lost_track_lets_no_answer_pass() -> None:
    class Lost(Theirs):
        def __init__(self) -> None:
            super().__init__(None)
            self.folds = {Event: self._fail}

        def _fail(self, event: Event) -> None:
            raise KeyError("a defect")

    held = held_at_length(Lost())
    held.folds[Event](Event(n=1, run="r", at=0.0, t=0.0))
    (objection,) = gate(held).objections(draft("x"))
    assert "the check theirs could not be made" in objection.message


def test_one_that_guards_nothing_is_a_configuration_error() -> None:
    class Nothing:
        name = "nothing"
        folds: ClassVar[dict[type[Event], Callable[[Any], None]]] = {}

    with pytest.raises(ConfigurationError, match="'nothing' guards nothing"):
        held_at_length(Nothing())
