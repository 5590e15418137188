"""Parts for Sangam from outside its repository: one of each of five roles, each an equation of a paper."""

from sangam_example_parts.listwise import Jrc, Rcr
from sangam_example_parts.low_rank_cross import LowRankCross
from sangam_example_parts.pepnet import PepNet
from sangam_example_parts.recall_at_precision import RecallAtPrecision
from sangam_example_parts.semantic_ids import SemanticIds

__all__ = ["Jrc", "LowRankCross", "PepNet", "Rcr", "RecallAtPrecision", "SemanticIds"]
