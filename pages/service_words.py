"""What the reference of the decision service says about routes, fields and limits, beside what its types say."""

from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """What a page says about a route: what it is for, what it does, and errors of its own."""

    title: str
    text: str
    errors: dict[int, str]


GROUPS = {
    "Decisions and feedback": ("decide", "feedback", "activate", "batch"),
    "Experiments and their arms": ("create", "listed", "shown", "change", "archive", "add_arm", "remove_arm"),
    "What was learned": ("report", "evaluate", "events"),
    "Learners and metadata": ("export", "imported", "erase"),
    "Keys": ("create_key", "list_keys", "revoke_key"),
    "OpenFeature": ("evaluate_flag", "evaluate_flags"),
}
"""The routes, by what they are for."""

_NO_EXPERIMENT = "there is no such experiment"
_NO_DECISION = "there is no such experiment, or no such decision in it; it may have been deleted by the retention"

ROUTES = {
    "decide": About(
        "Make a decision",
        "Draws an arm, or with `n` several from the same distribution. The same request with the same `id` again has "
        "the same answer, with status 200. The body may be empty.",
        {
            404: _NO_EXPERIMENT,
            409: "the experiment is archived",
            422: "the `id` was used before with another body, an arm of `among` is not there, or `metadata` is too "
            "large",
        },
    ),
    "feedback": About(
        "Give feedback",
        "The state in the answer is one of `learned`; `accepted`, a part of a sum that will be learned when the "
        "wait ends; `duplicate`, the same value as before, without effect; `late`, learned after the wait, in an "
        "experiment with `late=learn`.",
        {
            404: _NO_DECISION,
            409: "this decision, or this part of its sum, has other feedback already",
            410: "the wait has ended; the feedback was logged, and not learned",
            422: "a loss where the experiment takes rewards or the other way round, a number that is not finite or "
            "outside the range of the policy, a `key` that is missing or not wanted, or too many parts",
        },
    ),
    "activate": About(
        "Activate a decision",
        "The wait begins now. Activating a decision that is open or learned changes nothing. A decision that is never "
        "activated is forgotten when as much time as the wait has passed. Feedback may come without activation. "
        "The first part of a sum activates its decision.",
        {404: _NO_DECISION, 410: "the decision was forgotten, or its wait has ended"},
    ),
    "batch": About(
        "Do many things at once",
        "Operations are done in their order, and stored together. The answer has status 200, and each result has the "
        "status and the body that the operation would have had on its own. One that is refused does not stop the "
        "others.",
        {422: "there are too many operations, or too many decisions in all of them"},
    ),
    "create": About(
        "Create an experiment",
        "If it exists already with the same settings and arms, the answer is 200. With `wait`, exactly one of "
        "`forget=true` and a default must be given, unless feedback is summed: it says what silence means. With "
        "`late=learn`, there must be no default. The policy must learn from one loss per round and need no horizon.",
        {
            403: "the name does not begin with the prefix of the key",
            409: "the experiment exists with other settings or arms",
            422: "settings do not fit together, or there is no such policy",
        },
    ),
    "listed": About(
        "List experiments",
        "Only experiments that the key covers. `next` is what to pass as `after`, null at the end.",
        {},
    ),
    "shown": About(
        "Show an experiment",
        "The settings of an experiment, and how many of its decisions are open.",
        {404: _NO_EXPERIMENT},
    ),
    "change": About(
        "Change an experiment",
        "Fields that are absent stay as they are. `forget=true` removes the default, a default sets `forget=false`, "
        "and `wait=null` removes both. Decisions that are open keep the time at which their wait ends, but what "
        "happens then follows the new settings. Policy, direction and aggregation cannot be changed.",
        {404: _NO_EXPERIMENT, 422: "settings do not fit together"},
    ),
    "archive": About(
        "Archive an experiment",
        "No more decisions are made; feedback for earlier ones is still learned. There is no way back, and no way to "
        "delete an experiment.",
        {404: _NO_EXPERIMENT},
    ),
    "add_arm": About(
        "Add an arm",
        "Status 201, or 200 if the arm is there already. Write slashes and other special characters of its name as "
        "percent codes.",
        {404: _NO_EXPERIMENT, 409: "the experiment has as many arms as it may have", 422: "the name is too long"},
    ),
    "remove_arm": About(
        "Remove an arm",
        "Its open decisions stay, and their feedback is accepted.",
        {404: "there is no such experiment or no such arm", 409: "it is the last arm"},
    ),
    "report": About(
        "Get a report",
        "The estimates assume that all arms were eligible in every round, and use the latest rounds of the log, as "
        "many as the limits say. They are absent if the log has no feedback, and null for an arm that no round has.",
        {404: _NO_EXPERIMENT},
    ),
    "evaluate": About(
        "Evaluate another way of choosing",
        "Give one of `arm` and `probabilities`. The same estimates and the same conditions as in the report.",
        {
            404: _NO_EXPERIMENT,
            422: "both or neither are given, the probabilities do not add up to 1, or the log has no round that tells "
            "anything about the target",
        },
    ),
    "events": About(
        "Read the log",
        "Events with numbers above `after`, at most `limit`, one JSON object per line. A page ends "
        "early if its events are large together. The header `X-Next-After` has the number to go on from; if it equals "
        "`after`, there is nothing new. Numbers begin at 1, or later if the log was pruned.",
        {404: _NO_EXPERIMENT},
    ),
    "export": About(
        "Export the learner", "The file that `umab.Learner.load` reads, without open choices.", {404: _NO_EXPERIMENT}
    ),
    "imported": About(
        "Import a learner",
        "The body is a file that `umab.Learner.save` or the export has written. The experiment takes its arms, its "
        "probabilities and its counters, with fresh randomness. Decisions that are open stay open, and the new learner "
        "learns from their feedback.",
        {
            404: _NO_EXPERIMENT,
            409: "the learner has another policy or direction than the experiment",
            422: "the body is no saved learner, or its arms are not as those of an experiment must be",
        },
    ),
    "erase": About(
        "Erase metadata",
        "Metadata is not part of the log, so that it can be erased.",
        {404: _NO_EXPERIMENT, 422: "`before` is no time with a zone"},
    ),
    "create_key": About(
        "Create a key",
        "The answer has the text of the key, which is not stored and never shown again. A key cannot create one that "
        "may do more than itself.",
        {403: "the prefix does not begin with the prefix of the key that asks"},
    ),
    "list_keys": About(
        "List keys", "Also those that were revoked; only keys whose prefix begins with that of the key that asks.", {}
    ),
    "revoke_key": About(
        "Revoke a key",
        "It is refused from then on. To revoke it again changes nothing.",
        {404: "there is no such key, or the key that asks does not cover it"},
    ),
    "evaluate_flag": About(
        "Evaluate a flag",
        "The single evaluation of the OpenFeature Remote Evaluation Protocol: a decision in the experiment, whose arm "
        "is the value and the variant. With `targetingKey` and `umabSticky`, a duration, the same decision is returned "
        "to the same target until the time is over. Errors 400 and 404 have the fields of [Failure](#Failure).",
        {400: "the context is not as it must be", 404: "there is no such experiment, or it is archived"},
    ),
    "evaluate_flags": About(
        "Evaluate all flags",
        "The bulk evaluation of the protocol: a deferred decision in each active experiment that the key covers. What "
        "sticks is the same as in single evaluations. The header `ETag` names the answer; a request with it as "
        "`If-None-Match` is answered with 304 and no body if the answer is the same, which it is while all of it "
        "sticks.",
        {400: "the context is not as it must be"},
    ),
}
"""About each route, by its operationId."""

ERRORS = {
    400: ("the body is no JSON, or the connection broke", "correct the request"),
    401: ("there is no valid key in the request", "send a key; `umab keys list` says which were revoked"),
    403: ("the key has a lower role, or does not cover the experiment", "use another key"),
    404: ("the path, the experiment, the arm, the decision or the key does not exist", "look for a misspelt name"),
    405: ("the path exists, but not with this method", "the header `Allow` lists the methods"),
    408: ("the head or the body took too long to arrive", "try again"),
    409: ("the request does not fit what is there", "look at what is there; trying again does not help"),
    410: ("it came after the wait", "nothing; late feedback was logged"),
    413: ("the body is too large", "send less at once"),
    422: ("a field is unknown, missing or outside its limits, or fields do not fit together", "correct the request"),
    429: ("too many wrong keys came from this address", "wait as long as `Retry-After` says"),
    431: ("the head of the request is too large", "send fewer or shorter headers"),
    500: ("the server has a bug; nothing was stored", "read its log, report the bug, try again with the same ids"),
    503: (
        "nothing could be stored, as on a full disk, or there are too many connections",
        "wait as long as `Retry-After` says, and try again",
    ),
}
"""What a status means, and what to do."""

FIELDS = {
    "NewExperiment": {
        "name": "letters, digits, dots, dashes and underscores",
        "arms": "all different",
        "policy": "a [registered policy](../which-policy.md) by its name; parameters as in `umab-w:attention=none`",
        "maximize": "whether feedback is rewards: more is better",
        "seed": "makes the draws repeatable; leave it out in production",
        "wait": "how long a decision waits for feedback; without it, for ever",
        "default_loss": "what is learned if no feedback comes in time",
        "default_reward": "the same, if the experiment maximizes",
        "forget": "learn nothing if no feedback comes in time",
        "aggregation": "learn the first feedback, or the sum of all parts when the wait ends",
        "late": "what to do with feedback after the wait: learn it, or only log it",
    },
    "ChangedExperiment": {
        "wait": "null removes the wait",
        "default_loss": "null removes the default",
        "default_reward": "null removes the default",
        "forget": "as in a new experiment",
        "late": "as in a new experiment",
    },
    "NewDecision": {
        "id": "chosen by the caller, unique in its experiment; without it, the server makes one up",
        "among": "the arms that are eligible; without it, all",
        "n": "how many decisions; without it, one, whose answer is not in a list",
        "defer": "start the wait later, by `activate`",
        "metadata": "anything, for those who read the database; it can be erased",
    },
    "Feedback": {
        "loss": "what the arm cost; lower is better",
        "reward": "what the arm gained, if the experiment maximizes",
        "key": "which part of a sum this is; only with `aggregation=sum`",
        "at": "when it happened; it is logged, and has no effect",
    },
    "Batch": {"operations": "decisions and feedback, in the order in which they are done"},
    "Operation": {
        "experiment": "the name of an experiment",
        "decide": "a decision to make; this or `feedback`",
        "decision": "the id of the decision that the feedback is for",
        "feedback": "what came of it",
    },
    "Target": {"arm": "always this arm", "probabilities": "arms drawn with these probabilities, which add up to 1"},
    "NewKey": {
        "role": "what it may do",
        "prefix": "only for experiments whose names begin with this",
        "note": "what it is for",
    },
    "Decision": {
        "id": "what to send feedback to",
        "arm": "the arm that was drawn",
        "probability": "how likely it was to be drawn",
        "state": "as it was when the decision was made",
        "expires_at": "when the wait ends; null if it does not, or has not begun",
    },
    "Decisions": {"decisions": "in the order of their ids, `id/0`, `id/1` and so on"},
    "ShownExperiment": {
        "policy": "by its full name",
        "wait": "in seconds, as in `PT1800S`",
        "state": "an archived experiment makes no decisions",
        "created_at": "a time",
        "open": "how many decisions wait for feedback, deferred ones too",
        "default_loss": "absent if there is none",
        "default_reward": "absent if there is none",
    },
    "Experiments": {"next": "what to pass as `after`; null if there are no more"},
    "Activated": {"state": "`open`, or `learned`", "expires_at": "when the wait ends; null if it does not"},
    "Erased": {"erased_before": "metadata of decisions made before this time is gone"},
    "Result": {"status": "as an answer of its own would have it", "body": "likewise"},
    "Estimate": {
        "mean": "the estimated loss or reward per round",
        "low": "null if there are too few rounds for an interval",
        "high": "null if there are too few rounds for an interval",
        "confidence": "of the interval",
        "effective_rounds": "how many rounds of its own the log is worth",
        "doubts": "reasons not to trust it",
    },
    "Estimates": {
        "rounds": "how many rounds of the log were used",
        "paid": "the mean loss or reward of these rounds",
        "always": "for each arm: what it would have been with this arm in every round; null if no round has it",
        "at_random": "the same for all arms with equal probabilities",
        "best": "the arm whose estimate is best",
        "regret": "how much worse than this arm, per round",
        "saved": "how much better than choosing at random, per round",
    },
    "ArmReport": {
        "probability": "of the next draw",
        "selected": "how often it was drawn",
        "updates": "how often something was learned from it, defaults too",
        "mean": "of what was learned from it",
    },
    "ChangeReport": {
        "round": "after how many losses it was noticed",
        "arm": "which arm showed it",
        "state": "what came of the fresh start",
    },
    "EvaluationRequest": {
        "context": "`targetingKey`: whom it is for; `umabSticky`: for how long a choice sticks; the rest is ignored, "
        "and not stored",
    },
    "Flag": {
        "key": "the name of the experiment",
        "value": "the arm",
        "variant": "the arm",
        "errorCode": "only if it could not be evaluated, and then without a value",
    },
    "FlagMetadata": {
        "decisionId": "what to send feedback to",
        "maximize": "whether feedback is a reward, and not a loss",
    },
    "Failure": {"errorDetails": "the rule and the value", "key": "the name of the experiment, if one was asked for"},
    "CreatedKey": {"key": "the text of the key, shown only here"},
    "Problem": {"type": "always `about:blank`", "title": "the name of the status", "detail": "the rule and the value"},
}
"""About fields whose name does not say it all, by type."""

EVENTS = {
    "created": "the settings of the experiment",
    "decided": "`draws`: pairs of an id and a draw; `due`: when the wait ends; `defer`, if it was deferred",
    "activated": "`decision`, and `due`",
    "learned": "`decision`, its `draw`, the `value` of the feedback, `at` if it was given, and whether it was `late`",
    "accepted": "a part of a sum: the same with its `key`",
    "late": "feedback that came after the wait, and was not learned",
    "expired": "waits that ended: `learned` has triples of an id, a draw and a value; `forgotten` has pairs of an id "
    "and a draw",
    "arms": "the arms, after some were added or removed",
    "changed": "the settings, after some were changed",
    "imported": "a learner was imported",
}
"""What the body of each kind of event has."""
