"""Callbacks: actions during training, one file each. Subclass `Callback` to add one.

```python
rc.train(model, task, callbacks=[CSVLog("history.csv"), TensorBoard("logs")])
```
"""

from recombine.training.callbacks.callback import Callback
from recombine.training.callbacks.csv_log import CSVLog
from recombine.training.callbacks.tensorboard import TensorBoard

__all__ = ["CSVLog", "Callback", "TensorBoard"]
