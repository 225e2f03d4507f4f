"""Records agreement and preference statistics of Python packages, into tests/vectors/agreement.json.

Needs `krippendorff` (0.8), `scikit-learn` (1.7), `statsmodels` (0.15). Run: python tests/record/agreement_vectors.py [OUT]
"""

import json
import math
import sys
import warnings

import krippendorff
import numpy
import statsmodels.api
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.proportion import proportion_confint

random = numpy.random.default_rng(2025)
warnings.simplefilter("ignore")


def noisy(judges, units, values, noise, missing):
    """Judges who see a true value, sometimes another one, and skip some units."""
    truth = random.choice(values, units)
    ratings = []
    for _ in range(judges):
        other = random.uniform(size=units) < noise
        row = numpy.where(other, random.choice(values, units), truth).astype(float)
        row[random.uniform(size=units) < missing] = numpy.nan
        ratings.append(row)
    return numpy.array(ratings)


def plain(ratings):
    return [[None if math.isnan(value) else value for value in row] for row in ratings.tolist()]


def alphas():
    tables = [noisy(*case) for case in [
        (2, 12, [0, 1], 0.3, 0.0),
        (3, 20, [0, 0.5, 1], 0.4, 0.2),
        (4, 25, range(1, 11), 0.5, 0.3),
        (2, 15, [0, 1], 1.0, 0.1),
        (5, 9, [-2.5, 0.125, 7], 0.2, 0.5),
    ]]
    # Units that one judge alone rated, and one that nobody rated.
    tables.append(numpy.array([[1, numpy.nan, 3, 2, numpy.nan, 1], [numpy.nan, numpy.nan, 3, 1, 2, 1]], dtype=float))
    return [
        [plain(table), *(krippendorff.alpha(table, level_of_measurement=level) for level in ("nominal", "interval"))]
        for table in tables
    ]


def kappas():
    rows = []
    for units, values, noise in [(8, [0, 1], 0.5), (30, [0, 0.5, 1], 0.3), (40, range(1, 6), 0.6), (20, [0, 1], 1.0)]:
        first, second = noisy(2, units, values, noise, 0.0)
        # Labels: the function treats floats as a regression target.
        names = [[str(value) for value in row] for row in (first, second)]
        rows.append([first.tolist(), second.tolist(), float(cohen_kappa_score(*names))])
    return rows


def length_controlled():
    rows = []
    for count, effect in [(12, 0.5), (40, 2.0), (80, -1.0), (60, 0.0)]:
        differences = random.normal(60, 150, count).round()
        squashed = numpy.tanh(differences / differences.std())
        chance = 1 / (1 + numpy.exp(-(0.3 + effect * squashed)))
        outcomes = (random.uniform(size=count) < chance).astype(float)
        outcomes[:: 7] = 0.5
        fit = statsmodels.api.GLM(
            outcomes, statsmodels.api.add_constant(squashed), family=statsmodels.api.families.Binomial()
        ).fit(tol=1e-14, maxiter=200)
        rows.append([outcomes.tolist(), differences.tolist(), float(1 / (1 + math.exp(-fit.params[0])))])
    return rows


def intervals():
    pairs = [(0, 4), (3, 4), (10, 10), (17, 40), (650, 805)]
    return [[wins, count, *map(float, proportion_confint(wins, count, method="wilson"))] for wins, count in pairs]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/vectors/agreement.json"
    recorded = {
        "alpha": alphas(),
        "kappa": kappas(),
        "length_controlled": length_controlled(),
        "wilson": intervals(),
    }
    with open(out, "w") as file:
        json.dump(recorded, file, indent=None, separators=(",", ":"))
        file.write("\n")


main()
