"""The row numbers of ids: what a server without our look-ups is sent, or has found otherwise."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from bench.serving_peers.days import Arrays
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.transforms.keys import id_keys
from sangam.trainer_module.transforms.lists import most_values

_ROWS, _KEYS = "tables/{}/_rows/.ATTRIBUTES/VARIABLE_VALUE", "tables/{}/_keys/.ATTRIBUTES/VARIABLE_VALUE"


class Tables:
    """The rows of a model, which are sorted by key.

    Attributes:
        rows: rows of each group, and one of zeros at the end: that of unknown ids.
    """

    def __init__(self, model: Path, ranker: Ranker):
        variables = tf.train.load_checkpoint(str(model / "variables" / "variables"))
        self._spec, self._layout, self._tags = ranker.spec, ranker.layout, ranker.spec.table_tags()
        self._keys: Mapping[str, Any] = {group: variables.get_tensor(_KEYS.format(group)) for group in ranker.groups}
        self.rows: dict[str, NDArray[np.float32]] = {
            group: np.pad(variables.get_tensor(_ROWS.format(group)), [(0, 1), (0, 0)]) for group in ranker.groups
        }

    def parts(self) -> list[tuple[str, str, str]]:
        """Returns the parts of the model's input behind the numbers: (group, id, mean or positional, feature)."""
        layout = self._layout
        kinds = {"id": layout.ids, "mean": {group: layout.combined(group) for group in self.rows}}
        kinds["positional"] = layout.encoded
        return [(group, kind, name) for group in self.rows for kind, of in kinds.items() for name in of[group]]

    def request(self, arrays: Arrays) -> dict[str, Arrays]:
        """Returns `rows`, the row numbers of each feature, [n] or [n, values], and `lengths` of those with lists."""
        rows: Arrays = {}
        lengths: Arrays = {}
        for group, kind, name in self.parts():
            feature, column = self._spec.features[name], self._spec.column_of(name)
            numbers = self._numbers(group, self._tags[str(feature.table_name())], arrays[column], feature)
            if kind != "id":
                most = most_values(feature)
                numbers = numbers[:, :most]
                rows[name] = np.pad(numbers, [(0, 0), (0, most - numbers.shape[1])])
                lengths[name] = np.minimum(arrays[f"{column}{LENGTH}"], most)
            else:
                rows[name] = numbers
        return {"rows": rows, "lengths": lengths}

    def _numbers(self, group: str, tag: int, values: NDArray[Any], feature: Any) -> NDArray[np.int64]:
        missing, instead = MISSING[feature.type], getattr(feature, "missing", None)
        if instead is not None:
            values = np.where(values == missing, instead.encode() if isinstance(instead, str) else instead, values)
        keys, trained = id_keys(tag, tf.constant(values.ravel())).numpy().reshape(values.shape), self._keys[group]
        found = np.minimum(np.searchsorted(trained, keys), len(trained) - 1)
        is_known = (trained[found] == keys) & (values != missing)
        return np.where(is_known, found, len(self.rows[group]) - 1).astype(np.int64)
