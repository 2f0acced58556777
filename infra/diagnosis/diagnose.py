"""One diagnosis: every collector that the alarm asks for looks, at the same time, then the rules read what was seen.

Knows no source. Invariant: a collector that fails for whatever reason takes nothing else with it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from infra.diagnosis.evidence import Collector, Context, Evidence, NotSeen, causes_of
from infra.diagnosis.page import filled
from infra.diagnosis.report import Report
from infra.diagnosis.rules import RULES

_AT_ONCE = 8
_log = logging.getLogger(__name__)


def diagnose(
    context: Context, collectors: Sequence[Collector], steps: dict[str, str], *, missing: Sequence[NotSeen] = ()
) -> Report:
    """Look and judge. `missing` are ways of looking that are known to be closed; `steps` are the page's, by cause."""
    wanted = [one for one in collectors if one.wanted(context)]
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="look") as pool:
        parts = list(pool.map(lambda one: _looked(one, context), wanted))
    evidence = Evidence.joined((Evidence(not_seen=tuple(missing)), *parts))
    own = {cause: filled(step, context.site, cluster=context.stack == "large") for cause, step in steps.items()}
    return Report(context=context, evidence=evidence, causes=causes_of(RULES[context.alarm], evidence, own))


def _looked(collector: Collector, context: Context) -> Evidence:
    try:
        return collector.collect(context)
    except Exception as error:  # an answer of a form that we did not expect: said, and the others go on
        _log.exception("collector of %s", collector.source)
        reason = f"its answer was not understood: {type(error).__name__}: {' '.join(str(error).split())}"
        return Evidence(not_seen=(NotSeen(source=collector.source, reason=reason),))
