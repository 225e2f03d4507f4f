"""Records what scipy and statsmodels compute, into tests/vectors/statistics.json.

Needs `scipy` (1.17), `statsmodels` (0.15). Run: python tests/record/statistics_vectors.py [OUT]
"""

import json
import sys

import numpy
import statsmodels.api
from scipy import stats
from statsmodels.stats.multitest import multipletests

random = numpy.random.default_rng(2024)


def mcnemar():
    pairs = [(0, 0), (0, 1), (1, 1), (0, 5), (1, 9), (3, 17), (12, 30), (40, 41), (499, 502), (470, 560)]
    pairs += [(0, 1200), (15, 1500), (1000, 1100), (5000, 5300), (49_000, 50_500), (499_000, 501_000), (10_000, 990_000)]
    return [[won, lost, stats.binomtest(won, won + lost, 0.5).pvalue if won + lost else 1.0] for won, lost in pairs]


def sign_flips():
    samples = [[0.5, -0.25], [1.0, 2.0, 3.0], [0.0, 0.0, 1.0, -1.0, 1.0], [0.1, 0.2, 0.3, -0.6, 0.7, 0.05]]
    samples += [random.normal(0.3, 1.0, size).round(3).tolist() for size in (8, 12, 15)]
    rows = []
    for sample in samples:
        # One sample, sign flips: scipy pairs it with zeros and swaps within pairs.
        zeros = [0.0] * len(sample)
        result = stats.permutation_test(
            (sample, zeros),
            lambda x, y, axis: numpy.sum(x - y, axis=axis),
            permutation_type="samples",
            n_resamples=numpy.inf,
            vectorized=True,
        )
        rows.append([sample, float(result.pvalue)])
    return rows


def adjustments():
    samples = [[0.01], [0.04, 0.01, 0.03], [0.5, 0.5, 0.001, 0.2, 0.9], [1.0, 1.0], [0.02, 0.02, 0.02]]
    samples.append(random.uniform(0, 0.2, 40).tolist())
    return [
        [p, multipletests(p, method="holm")[1].tolist(), multipletests(p, method="fdr_bh")[1].tolist()] for p in samples
    ]


def clustered():
    rows = []
    for clusters, size in ((2, 4), (5, 3), (12, 6), (40, 2)):
        effects = random.normal(0, 1, clusters)
        labels = numpy.repeat(numpy.arange(clusters), size)
        values = (effects[labels] + random.normal(0, 1, clusters * size)).round(4)
        keep = random.uniform(size=len(values)) < 0.9
        keep[:: size] = True
        values, labels = values[keep], labels[keep]
        model = statsmodels.api.OLS(values, numpy.ones(len(values)))
        errors = [
            float(model.fit(cov_type="cluster", cov_kwds={"groups": labels, "use_correction": correction}).bse[0])
            for correction in (True, False)
        ]
        rows.append([values.tolist(), labels.tolist(), *errors])
    return rows


def distributions():
    points = [1e-300, 1e-12, 1e-4, 0.001, 0.025, 0.2, 0.49999, 0.5, 0.6, 0.9, 0.975, 0.9999]
    normal = [[p, float(stats.norm.ppf(p))] for p in points]
    student = [
        [p, df, float(stats.t.ppf(p, df))] for p in points[2:] for df in (1, 2, 3.5, 9, 49, 499, 4999, 1e6)
    ]
    tails = [[x, df, float(stats.t.cdf(x, df))] for x in (-30.0, -4.5, -1.0, 0.0, 0.3, 2.5) for df in (1, 4, 30, 1e5)]
    return {"normal_quantile": normal, "student_quantile": student, "student_cdf": tails}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/vectors/statistics.json"
    recorded = {
        "mcnemar": mcnemar(),
        "sign_flip": sign_flips(),
        "adjust": adjustments(),
        "clustered": clustered(),
        **distributions(),
    }
    with open(out, "w") as file:
        json.dump(recorded, file, indent=None, separators=(",", ":"))
        file.write("\n")


main()
