"""The official OpenFeature SDK and its OFREP provider, unchanged, with a real server; and our provider on top."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")
pytest.importorskip("openfeature.contrib.provider.ofrep")

import openfeature.api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.provider import FeatureProvider
from openfeature.track import TrackingEventDetails

from service_process import KEY, Server, running
from umab.client import FeedbackCounts
from umab.client.openfeature import UmabProvider

VISITOR = EvaluationContext("visitor-1")
STICKY = EvaluationContext("visitor-1", {"umabSticky": "P1D"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server") / "umab.db") as found:
        for settings in (
            {"name": "checkout", "arms": ["one page", "steps"]},
            {"name": "gain", "arms": ["a", "b"], "maximize": True},
            {"name": "sums", "arms": ["a", "b"], "aggregation": "sum", "wait": "PT1H", "default_loss": 0},
        ):
            assert found.ask("POST", "/v1/experiments", settings)[0] == 201
        yield found


@contextlib.contextmanager
def with_provider(provider: FeatureProvider) -> Iterator[OpenFeatureClient]:
    openfeature.api.set_provider(provider)
    try:
        yield openfeature.api.get_client()
    finally:
        openfeature.api.shutdown()
        openfeature.api.clear_providers()
        if isinstance(provider, OFREPProvider):
            provider.session.close()


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def official(server: Server, key: str = KEY) -> OFREPProvider:
    return OFREPProvider(url_of(server), headers_factory=lambda: {"Authorization": f"Bearer {key}"})


def ours(server: Server) -> UmabProvider:
    return UmabProvider(url_of(server), KEY)


def open_ones(server: Server, name: str) -> int:
    return int(server.ask("GET", f"/v1/experiments/{name}")[1]["open"])


def updates(server: Server, name: str) -> float:
    return float(sum(each["updates"] for each in server.ask("GET", f"/v1/experiments/{name}/report")[1]["arms"]))


def test_the_official_provider_evaluates_unchanged(server: Server) -> None:
    with with_provider(official(server)) as client:
        before = open_ones(server, "checkout")
        found = client.get_string_details("checkout", "default", VISITOR)
        assert found.value == found.variant and found.value in ("one page", "steps")
        assert found.reason == Reason.SPLIT and found.error_code is None
        assert 0.0 < float(found.flag_metadata["probability"]) <= 1.0
        assert client.get_string_value("checkout", "default") in ("one page", "steps")  # without a context too
        assert open_ones(server, "checkout") == before + 2
        path = f"/v1/experiments/checkout/decisions/{found.flag_metadata['decisionId']}/feedback"
        assert server.ask("PUT", path, {"loss": 1.0}) == (200, {"state": "learned"})


def test_with_the_official_provider_a_choice_sticks(server: Server) -> None:
    with with_provider(official(server)) as client:
        found = [client.get_string_details("checkout", "default", STICKY) for _ in range(3)]
        assert len({each.flag_metadata["decisionId"] for each in found}) == 1


def test_the_official_provider_returns_the_default_and_says_why(server: Server) -> None:
    with with_provider(official(server)) as client:
        missing = EvaluationContext(attributes={"umabSticky": "P1D"})
        wrong = EvaluationContext("visitor-1", {"umabSticky": "soon"})
        for name, context, code, words in (
            ("nothing", VISITOR, ErrorCode.FLAG_NOT_FOUND, "there is none named 'nothing'"),
            ("checkout", missing, ErrorCode.TARGETING_KEY_MISSING, "must come with a targetingKey"),
            ("checkout", wrong, ErrorCode.INVALID_CONTEXT, "but got 'soon'"),
        ):
            found = client.get_string_details(name, "default", context)
            assert (found.value, found.reason, found.error_code) == ("default", Reason.ERROR, code)
            assert words in str(found.error_message)
        found_number = client.get_integer_details("checkout", 7, VISITOR)
        assert (found_number.value, found_number.error_code) == (7, ErrorCode.TYPE_MISMATCH)
    with with_provider(official(server, KEY[:-1] + "b")) as client:
        found = client.get_string_details("checkout", "default", VISITOR)
        assert (found.value, found.error_code, found.error_message) == ("default", ErrorCode.GENERAL, "unauthorized")
    with with_provider(OFREPProvider("http://127.0.0.1:9")) as client:
        assert client.get_string_details("checkout", "default").error_code == ErrorCode.GENERAL


def test_what_is_tracked_is_learned(server: Server) -> None:
    provider = ours(server)
    with with_provider(provider) as client:
        for name, value in (("checkout", 3.2), ("gain", 7.5)):
            before = updates(server, name)
            found = client.get_string_details(name, "default", VISITOR)
            assert found.reason == Reason.SPLIT
            client.track(name, VISITOR, TrackingEventDetails(value=value))
            assert provider.flush(30.0) and updates(server, name) == before + 1
            unit = "reward" if name == "gain" else "loss"
            path = f"/v1/experiments/{name}/decisions/{found.flag_metadata['decisionId']}/feedback"
            assert server.ask("PUT", path, {unit: value}) == (200, {"state": "duplicate"})
        assert provider.feedback() == FeedbackCounts(0, 2, 0, 0) and provider.n_missed == 0
        assert client.provider.get_metadata().name == "umab"


def test_each_visitor_has_feedback_of_its_own(server: Server) -> None:
    provider = ours(server)
    with with_provider(provider) as client:
        visitors = [EvaluationContext(f"visitor-{number}") for number in range(5)]
        found = [client.get_string_details("gain", "default", each).flag_metadata["decisionId"] for each in visitors]
        for number, visitor in enumerate(reversed(visitors)):
            client.track("gain", visitor, TrackingEventDetails(value=float(number)))
        assert provider.flush(30.0)
        for number, identity in enumerate(reversed(found)):
            path = f"/v1/experiments/gain/decisions/{identity}/feedback"
            assert server.ask("PUT", path, {"reward": number}) == (200, {"state": "duplicate"})


def test_parts_of_a_sum_are_named_by_an_attribute(server: Server) -> None:
    provider = ours(server)
    with with_provider(provider) as client:
        client.get_string_value("sums", "default", VISITOR)
        for order in ("order-1", "order-2", "order-1"):
            client.track("sums", VISITOR, TrackingEventDetails(2.0, {"key": order}))
        assert provider.flush(30.0) and provider.feedback() == FeedbackCounts(0, 3, 0, 0)
        client.track("sums", VISITOR, TrackingEventDetails(2.0))
        assert provider.flush(30.0) and provider.feedback() == FeedbackCounts(0, 3, 1, 0)


def test_what_cannot_be_told_is_counted_said_once_and_never_raised(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    provider = ours(server)
    with with_provider(provider) as client:
        client.track("checkout", VISITOR, TrackingEventDetails(1.0))  # before an evaluation
        client.get_string_value("checkout", "default")
        client.track("checkout", None, TrackingEventDetails(1.0))  # whose?
        client.get_string_value("checkout", "default", VISITOR)
        client.track("checkout", VISITOR)
        client.track("checkout", VISITOR, TrackingEventDetails(float("nan")))
        client.track("elsewhere", VISITOR, TrackingEventDetails(1.0))
        assert provider.n_missed == 5 and provider.feedback() == FeedbackCounts(0, 0, 0, 0)
    client.track("checkout", VISITOR, TrackingEventDetails(1.0))
    said = [each.message for each in caplog.records if each.name == "umab.client" and each.levelno == logging.WARNING]
    assert len(said) == 1 and "after an evaluation with a targeting key, but 'checkout' did not" in said[0]


def test_the_oldest_decisions_are_forgotten_first(server: Server) -> None:
    provider = UmabProvider(url_of(server), KEY, remembered=2)
    with with_provider(provider) as client:
        for name in ("one", "two", "one", "three"):
            client.get_string_value("gain", "default", EvaluationContext(name))
        missed = []
        for name in ("one", "two", "three"):
            before = provider.n_missed
            client.track("gain", EvaluationContext(name), TrackingEventDetails(1.0))
            missed += [name] * (provider.n_missed - before)
        assert missed == ["two"] and provider.flush(30.0) and provider.feedback().sent == 2


def test_the_provider_sends_what_is_left_when_it_is_shut_down(server: Server) -> None:
    provider = ours(server)
    with with_provider(provider) as client:
        client.get_string_value("gain", "default", VISITOR)
        client.track("gain", VISITOR, TrackingEventDetails(1.0))
    assert provider.feedback() == FeedbackCounts(0, 1, 0, 0)


def test_without_the_sdk_the_error_names_the_extra() -> None:
    program = """
        import sys
        import umab.client
        assert not [name for name in sys.modules if name.startswith("openfeature")]
        sys.modules["openfeature"] = None
        try:
            import umab.client.openfeature
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("umab.client.openfeature needs openfeature; run pip install 'umab[openfeature]'")
