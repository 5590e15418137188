"""Semantic IDs: the codes of a vector under a residual quantization that was fitted before."""

import io
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from sangam.parts import Column, ColumnName, Feature, Name, PinnedFile, PositiveInt, Problem, Tensor, tf


class SemanticIds(Feature):
    """Codes c_l = argmin_k |r_l - e_{l,k}|^2 with r_0 = x and r_{l+1} = r_l - e_{l,c_l}, as ids of a table.

    Rajput et al.: Recommender systems with generative retrieval, NeurIPS 2023 (RQ-VAE's quantization), on
    the vector itself instead of an encoder's output. The ids of Singh et al.: Better generalization with semantic IDs,
    2023: near vectors share rows.
    """

    kind: Literal["semantic_ids"]
    column: ColumnName
    """Column of lists of `dim` floats: the item's content as a vector. An empty list has no ids."""
    dim: PositiveInt
    """Length of the vectors."""
    codebooks: PinnedFile
    """File of `python -m sangam_example_parts.codebooks`: float32 [levels, codes, dim] as NumPy writes it."""
    table: Name
    """Table with a row per id."""
    ids: Literal["prefix", "level"] = "prefix"
    """Ids of a vector with codes 5, 2: `0:5`, `1:5-2`, or (`level`) `0:5`, `1:2`."""

    def reads(self, name: Name) -> Sequence[Column]:
        del name
        return [Column(self.column, "float", is_list=True, is_required=False, length=self.dim)]

    def table_name(self) -> Name:
        return self.table

    def is_list(self) -> bool:
        return True

    def combined_by(self) -> Literal["sum"]:
        return "sum"

    def problems(self) -> Iterator[Problem]:
        books = self._codebooks()
        if books.ndim != 3 or books.shape[2] != self.dim or books.dtype != "float32" or 0 in books.shape:
            got = f"{books.dtype} {list(books.shape)}"
            yield Problem(("codebooks",), f"is of another shape or type (got {got})", f"float32 [L, C, {self.dim}]")

    def _codebooks(self) -> Any:
        import numpy as np

        return np.load(io.BytesIO(self.codebooks.read()), allow_pickle=False)

    def transform(self, columns: Sequence[Tensor]) -> Tensor:
        residual_BD = columns[0].to_tensor(shape=[None, self.dim])
        texts, prefix_B = [], None
        for level, codes_CD in enumerate(self._codebooks()):
            # Differences, not products: the code does not depend on the order of a product's sums in a larger batch.
            distances_BC = tf.reduce_sum((residual_BD[:, None, :] - codes_CD) ** 2, axis=2)
            code_B = tf.argmin(distances_BC, axis=1)
            residual_BD -= tf.gather(codes_CD, code_B)
            text_B = tf.strings.as_string(code_B)
            if self.ids == "prefix" and prefix_B is not None:
                text_B = tf.strings.join([prefix_B, text_B], "-")
            prefix_B = text_B
            texts.append(tf.strings.join([f"{level}:", text_B]))
        has_vector_B = columns[0].row_lengths() > 0
        return tf.RaggedTensor.from_tensor(tf.stack(texts, axis=1), tf.where(has_vector_B, len(texts), 0))
