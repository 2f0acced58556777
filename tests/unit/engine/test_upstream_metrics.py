"""Pages of counters, and counters that never go back."""

from __future__ import annotations

import pytest

from eagle3.engine.interface import EngineSnapshot
from eagle3.engine.sglang import SglangDialect
from eagle3.engine.stats import DecodeStats
from eagle3.engine.upstream_metrics import LifetimeCounters, Samples
from eagle3.engine.vllm import VllmDialect

VLLM_PAGE = """
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} 8.0
vllm:spec_decode_num_drafts_total{engine="1"} 2.0
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 40.0
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 7.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 4.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 2.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 5.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{kv_cache_size_tokens="22528",num_gpu_blocks="176",block_size="128"} 1.0
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0"} 1.0
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0"} 60.0
# TYPE vllm:prompt_tokens_cached counter
vllm:prompt_tokens_cached_total{engine="0"} 16.0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0"} 20.0
"""

SGLANG_PAGE = """
# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{model_name="target"} 10.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="target"} 33.0
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{model_name="target"} 3.0
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="target"} 60.0
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="target"} 2.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="target"} 4.0
# TYPE sglang:num_used_tokens gauge
sglang:num_used_tokens{model_name="target"} 128.0
# TYPE sglang:max_total_num_tokens gauge
sglang:max_total_num_tokens{model_name="target"} 4096.0
"""


def test_vllm_page() -> None:
    """Engines are added up, positions are sorted as numbers, the cache comes from its labels."""
    snapshot = VllmDialect().snapshot(Samples.parse(VLLM_PAGE))
    assert snapshot.stats.cycles == 10
    assert snapshot.stats.cycle_tokens == 17
    assert snapshot.stats.tau == pytest.approx(1.7)
    assert (snapshot.stats.drafted_cycles, snapshot.stats.drafted_cycle_tokens) == (10, 17)
    assert snapshot.stats.drafted == 40
    assert snapshot.stats.accepted_at_depth == [4, 2, 1]
    assert snapshot.stats.output_tokens == 20
    assert (snapshot.running, snapshot.waiting) == (3, 5)
    assert (snapshot.cache_tokens, snapshot.cache_tokens_used) == (22528, 5632)
    assert (snapshot.prompt_tokens, snapshot.reused_prompt_tokens, snapshot.preemptions) == (60, 16, 1)


def test_older_vllm_names_blocks() -> None:
    """Where the slots are not told, they are blocks times their size; where neither is, 0."""
    page = VLLM_PAGE.replace('kv_cache_size_tokens="22528",', "")
    assert VllmDialect().snapshot(Samples.parse(page)).cache_tokens == 176 * 128
    assert VllmDialect().snapshot(Samples.parse("")).cache_tokens == 0


def test_sglang_page() -> None:
    """τ is the tokens of cycles per verification: the first token of each answer is the prefill's."""
    snapshot = SglangDialect().snapshot(Samples.parse(SGLANG_PAGE))
    assert snapshot.stats.tau == pytest.approx(3.0)
    assert snapshot.stats.drafted_cycle_tokens / snapshot.stats.drafted_cycles == pytest.approx(3.0)
    assert (snapshot.running, snapshot.waiting) == (2, 4)
    assert (snapshot.cache_tokens, snapshot.cache_tokens_used) == (4096, 128)


def test_counters_of_ended_runs_are_kept_and_their_gauges_are_not() -> None:
    """Three runs: sums of counters, gauges of the present one, nothing lost when a run was never looked at."""
    lifetime = LifetimeCounters()
    for tokens in (5, 7):
        lifetime.see(
            EngineSnapshot(
                stats=DecodeStats(cycles=2, output_tokens=tokens, accepted_at_depth=[1]),
                prompt_tokens=10,
                running=3,
                cache_tokens=100,
                cache_tokens_used=50,
            )
        )
        lifetime.end_run()
    lifetime.end_run()
    between = lifetime.add()
    assert (between.stats.output_tokens, between.stats.cycles, between.prompt_tokens) == (12, 4, 20)
    assert between.stats.accepted_at_depth == [2]
    assert (between.running, between.cache_tokens, between.cache_tokens_used) == (0, 0, 0)
    lifetime.see(EngineSnapshot(stats=DecodeStats(output_tokens=1), running=1))
    assert (lifetime.add().stats.output_tokens, lifetime.add().running) == (13, 1)
    assert lifetime.add().stats.output_tokens == 13, "looking changes nothing"
