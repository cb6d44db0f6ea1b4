"""Example sources: what a run is trained on. One file each; sources are selected by their kind. Plug-ins can add more.

```python
recipe("paper", examples={"cells": {"count": 10}, "single_factor": {"repeats": 2}})
```
"""

from recombine.core.registry import import_members
from recombine.training.examples.source import EXAMPLES, ExampleSource, Placement

__all__ = ["EXAMPLES", "ExampleSource", "Placement"]

import_members(__name__)
