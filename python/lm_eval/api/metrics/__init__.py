"""Metrics, aggregations, reductions and standard errors."""

from __future__ import annotations

from lm_eval.api.metrics._v04 import *
from lm_eval.api.metrics.aggregations import (
    bits_per_byte,
    bypass_agg,
    mean,
    median,
    nanmean,
    perplexity,
    weighted_mean,
    weighted_perplexity,
)
from lm_eval.api.metrics.corpus import (
    F1,
    MCC,
    BitsPerByte,
    Bleu,
    BytePerplexity,
    Chrf,
    CorpusMetric,
    Perplexity,
    Ter,
    WordPerplexity,
    f1_score,
    matthews_corrcoef,
)
from lm_eval.api.metrics.generation import exact_match_fn
from lm_eval.api.metrics.ll import (
    acc,
    acc_bytes,
    acc_mutual_info_fn,
    acc_norm,
    bpb,
    brier_score,
    bypass,
    choice_logprob_fn,
    choice_logprob_norm_fn,
    choice_prob_norm_fn,
    exact_match_mc,
    logprob_fn,
)
from lm_eval.api.metrics.metric import AggregationFn, Metric, MetricFn, ReductionFn
from lm_eval.api.metrics.reduce import pass_at_k, take_first
from lm_eval.api.metrics.results import LLResults
from lm_eval.api.metrics.stderr import (
    aggregate_subtask_metrics,
    bootstrap_stderr,
    mean_stderr,
    pooled_sample_stderr,
    sample_stddev,
    stderr_for_metric,
)
from lm_eval.api.metrics.utils import metric_max_over_ground_truths
from lm_eval.api.registry import register_aggregation, register_metric, register_reduction

__all__ = [
    "F1",
    "MCC",
    "AggregationFn",
    "BitsPerByte",
    "Bleu",
    "BytePerplexity",
    "Chrf",
    "CorpusMetric",
    "LLResults",
    "Metric",
    "MetricFn",
    "Perplexity",
    "ReductionFn",
    "Ter",
    "WordPerplexity",
    "acc",
    "acc_bytes",
    "acc_mutual_info_fn",
    "acc_norm",
    "aggregate_subtask_metrics",
    "bits_per_byte",
    "bootstrap_stderr",
    "bpb",
    "brier_score",
    "bypass",
    "bypass_agg",
    "choice_logprob_fn",
    "choice_logprob_norm_fn",
    "choice_prob_norm_fn",
    "exact_match_fn",
    "exact_match_mc",
    "f1_score",
    "logprob_fn",
    "matthews_corrcoef",
    "mean",
    "mean_stderr",
    "median",
    "metric_max_over_ground_truths",
    "nanmean",
    "pass_at_k",
    "perplexity",
    "pooled_sample_stderr",
    "register_aggregation",
    "register_metric",
    "register_reduction",
    "sample_stddev",
    "stderr_for_metric",
    "take_first",
    "weighted_mean",
    "weighted_perplexity",
]
