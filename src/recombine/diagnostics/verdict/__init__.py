"""The verdict: what a decoder does with combinations on which it was never trained.

    composes           its outputs are right
    partly composes    some of its outputs are right
    superposes         its outputs are sums of trained outputs that share a factor value
    copies             its outputs are single trained outputs
    collapses          its outputs are the mean trained output, or blank
    not learnt         its outputs for trained combinations are wrong
    fails otherwise    its outputs are wrong in another way
    undecided          the numbers do not decide, or something that they require is missing

The verdict is computed from the classes of the unseen cells (`recombine.diagnostics.cells`), in comparison with trained
cells that are treated as if they were unseen.
"""

from recombine.diagnostics.verdict.judge import judge, undecided
from recombine.diagnostics.verdict.kinds import Undecided, VerdictKind
from recombine.diagnostics.verdict.of_parts import verdict_of
from recombine.diagnostics.verdict.over_runs import verdict_over
from recombine.diagnostics.verdict.verdict import FactorValues, Verdict

__all__ = ["FactorValues", "Undecided", "Verdict", "VerdictKind", "judge", "undecided", "verdict_of", "verdict_over"]
