"""Sweeps: train many runs into one store, in this process, on local processes or on a Ray cluster.

    from recombine import RunConfig, Store, sweeps

    configs = sweeps.parse(["decoder.kind=mlp,cnn", "seed=0..7"]).configs
    result = sweeps.run(configs, Store("runs"), engine="processes")
    result.finished, result.failed                 # ids, failures
    sweeps.table(Store("runs")).to_pandas()

The same call resumes a sweep after an interruption or a crash. No finished run is lost or trained twice, and the final
table is byte-for-byte identical to that of an uninterrupted sweep. See docs/sweeps.md.
"""

from recombine.sweeps.driver import SweepResult, checked_limits
from recombine.sweeps.engines.choice import check_engine
from recombine.sweeps.engines.engine import ENGINES, EngineOptions, Needs
from recombine.sweeps.failures import Cause, Failure
from recombine.sweeps.planning import SweepPlan, plan
from recombine.sweeps.running import run
from recombine.sweeps.spec.spec import Sweep, parse
from recombine.sweeps.status import SweepStatus, status
from recombine.sweeps.table import Table, table

__all__ = [
    "ENGINES", "Cause", "EngineOptions", "Failure", "Needs", "Sweep", "SweepPlan", "SweepResult", "SweepStatus",
    "Table", "check_engine", "checked_limits", "parse", "plan", "run", "status", "table",
]  # fmt: skip
