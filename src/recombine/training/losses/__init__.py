"""Losses between outputs and targets. One file each; losses are selected by their kind. Plug-ins can add more.

```python
recipe("paper", loss={"kind": "huber", "delta": 0.1})
train(model, task, loss=lambda outputs, targets: (outputs - targets).abs().max())
```
"""

from recombine.core.registry import import_members
from recombine.training.losses.loss import LOSSES, FunctionLoss, Loss, as_loss

__all__ = ["LOSSES", "FunctionLoss", "Loss", "as_loss"]

import_members(__name__)
