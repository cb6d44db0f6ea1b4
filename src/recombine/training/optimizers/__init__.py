"""Optimizers. One file each; optimizers are selected by their kind. Plug-ins can add more.

```python
recipe("paper", optimizer={"kind": "sgd", "momentum": 0.9})
train(model, task, optimizer=lambda parameters, learning_rate: torch.optim.RMSprop(parameters, learning_rate))
```
"""

from recombine.core.registry import import_members
from recombine.training.optimizers.optimizer import OPTIMIZERS, OptimizerFactory

__all__ = ["OPTIMIZERS", "OptimizerFactory"]

import_members(__name__)
