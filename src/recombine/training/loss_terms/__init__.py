"""Loss terms of a recipe. One file each; terms are selected by their kind. Plug-ins can add more.

```python
recipe("low_rank", terms={"variance": {"weight": 0.01}})
```
"""

from recombine.core.registry import import_members
from recombine.training.loss_terms.composition import Composition
from recombine.training.loss_terms.contrast import Contrast
from recombine.training.loss_terms.entropy import Entropy
from recombine.training.loss_terms.hessian import Hessian
from recombine.training.loss_terms.interaction import Interaction
from recombine.training.loss_terms.penalty import ModulePenalty, RendererPenalty
from recombine.training.loss_terms.term import TERMS, Batch, LossTerm, check_terms
from recombine.training.loss_terms.variance import Variance

__all__ = [
    "TERMS",
    "Batch",
    "Composition",
    "Contrast",
    "Entropy",
    "Hessian",
    "Interaction",
    "LossTerm",
    "ModulePenalty",
    "RendererPenalty",
    "Variance",
    "check_terms",
]

import_members(__name__)
