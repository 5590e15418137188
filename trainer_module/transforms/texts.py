"""Ids of any type as texts, column after column."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import tensorflow as tf

from sangam.trainer_module.transforms.stacked import Logged, Values, stacked


def stacked_texts(columns: Sequence[Logged]) -> Values:
    """Returns ids as texts, one column behind the other: strings, then integers, then floats.

    A float counts by its value to six decimals.
    """
    order = [tf.string, tf.int64, tf.float32]
    of_types = [[column for column in columns if column.dtype == dtype] for dtype in order]
    if [column for of_type in of_types for column in of_type] != list(columns):
        raise ValueError("columns of strings come before those of integers, and these before floats")
    texts = [_as_texts(stacked(of_type)) for of_type in of_types if of_type]
    return texts[0] if len(texts) == 1 else _beside(texts)


def _beside(parts: Sequence[Values]) -> Values:
    """Returns the columns of all parts."""

    def all_of(name: str) -> tf.Tensor | None:
        tensors = [getattr(part, name) for part in parts]
        return None if any(tensor is None for tensor in tensors) else tf.concat(tensors, 0)

    [kind] = {type(part) for part in parts}
    joined: dict[str, Any] = {field.name: all_of(field.name) for field in fields(kind) if field.name != "num"}
    # Numbers of rows among all columns' would have to be moved.
    return kind(**{**joined, "lengths_FB": None, "all_row_n": None}, num=sum(part.num for part in parts))


def _as_texts(values: Values) -> Values:
    values_n = values.values_n
    if values_n.dtype == tf.string:
        return values
    if values_n.dtype == tf.float32:
        values_n += 0.0  # -0.0 becomes 0.0, which it equals.
    return replace(values, values_n=tf.strings.as_string(values_n))
