"""Packages that TensorFlow and TFRA import wherever they find them: for a training process, 40 % of its start."""

import sys

_NEEDLESS = ("googleapiclient", "keras", "pandas", "scipy")
"""Both do without them. Keras 3 imports matplotlib, scikit-learn and IPython in turn; Keras 2 is `tf_keras`."""


def leave_out_needless() -> None:
    """Makes imports of these packages fail in this process as if they were not installed.

    Entry points call it before they import TensorFlow.
    """
    for name in _NEEDLESS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
