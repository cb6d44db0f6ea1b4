"""The verdict: what a decoder does with combinations it was never trained on.

    composes           it makes the right output
    partly composes    it does so for some of them
    superposes         it answers with sums of trained outputs that share a factor value
    copies             it answers with single trained outputs
    collapses          it answers with the mean trained output, or with nothing
    not learnt         the trained combinations themselves are wrong
    fails otherwise    it is wrong in another way
    undecided          the numbers do not tell, or what they need is missing

The verdict is read off the classes of the unseen cells (`recombine.diagnostics.cells`), in comparison with trained
cells that are looked at as if they were unseen.
"""

from recombine.diagnostics.verdict.judge import judge, undecided
from recombine.diagnostics.verdict.kinds import Undecided, VerdictKind
from recombine.diagnostics.verdict.of_parts import verdict_of
from recombine.diagnostics.verdict.over_runs import verdict_over
from recombine.diagnostics.verdict.verdict import FactorValues, Verdict

__all__ = ["FactorValues", "Undecided", "Verdict", "VerdictKind", "judge", "undecided", "verdict_of", "verdict_over"]
