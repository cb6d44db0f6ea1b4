"""Callbacks: what else happens while a model is trained. One file each; write a subclass of `Callback` for your own.

rc.train(model, task, callbacks=[CSVLog("history.csv"), TensorBoard("logs")])
"""

from recombine.training.callbacks.callback import Callback
from recombine.training.callbacks.csv_log import CSVLog
from recombine.training.callbacks.tensorboard import TensorBoard

__all__ = ["CSVLog", "Callback", "TensorBoard"]
