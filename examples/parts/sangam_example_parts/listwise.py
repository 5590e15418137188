"""Losses that compare the candidates of one request, beside cross-entropy, for one logit a candidate."""

from collections.abc import Sequence
from typing import Literal

from sangam.parts import BinaryLoss, Examples, Fraction, Name, Tensor, tf

_NOT_AMONG = -1e9
"""Logit of an example that is in no sum; finite, so that gradients are."""


class _Listwise(BinaryLoss):
    of: Name
    """Feature of one id whose value the candidates of a request share. A batch should hold them together."""
    share: Fraction = 0.5
    """Weight of the term over a request's candidates."""

    def reads(self) -> Sequence[Name]:
        return [self.of]


class Rcr(_Listwise):
    """(1 - share) cross-entropy + share * -sum_i y_i log(p_i / sum_j p_j) of each request, p = sigmoid(z).

    Bai et al.: Regression compatible listwise objectives for calibrated ranking with binary relevance, CIKM 2023, with
    the normalizer C = 1: both terms are smallest where p is the probability of a click, and a softmax over z elsewhere.
    A request without a click adds nothing to the second.
    """

    kind: Literal["rcr"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        request_B, num_requests = _requests(examples.ids[self.of])
        listwise_B = _surprise(tf.math.log_sigmoid(logits_B), request_B, num_requests, examples.is_labeled_B)
        return _mixed(self.share, examples.labels_B * listwise_B, logits_B, examples)


class Jrc(_Listwise):
    """(1 - share) cross-entropy + share * the generative term of JRC, with the logits z/2 of a click and -z/2 of none.

    Sheng et al.: Joint optimization of ranking and calibration with contextualized hybrid model, KDD 2023. An example
    with label y adds -log(exp(f_i[y]) / sum_j exp(f_j[y])), j over the request. The paper's network has two logits, and
    the click's probability is sigmoid(f[1] - f[0]); here a task has one logit z, so f[1] = -f[0] = z/2 has the same
    probability. That leaves out the paper's second degree of freedom, by which its logits model p(x, y) in a request.
    """

    kind: Literal["jrc"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        request_B, num_requests = _requests(examples.ids[self.of])
        click_B, none_B = (
            _surprise(sign * logits_B / 2.0, request_B, num_requests, examples.is_labeled_B) for sign in (1.0, -1.0)
        )
        generative_B = examples.labels_B * click_B + (1.0 - examples.labels_B) * none_B
        return _mixed(self.share, generative_B, logits_B, examples)


def _requests(ids_B: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the number of each example's request, and how many there are."""
    distinct, request_B = tf.unique(ids_B)
    return request_B, tf.size(distinct)


def _surprise(scores_B: Tensor, request_B: Tensor, num_requests: Tensor, is_among_B: Tensor) -> Tensor:
    """Returns -log of each score's softmax among those of its request; 0 for an example that is not among them."""
    among_B = tf.where(is_among_B, scores_B, _NOT_AMONG)
    largest_R = tf.stop_gradient(tf.math.unsorted_segment_max(among_B, request_B, num_requests))
    exp_B = tf.exp(among_B - tf.gather(largest_R, request_B))
    totals_R = largest_R + tf.math.log(tf.math.unsorted_segment_sum(exp_B, request_B, num_requests))
    return tf.where(is_among_B, tf.gather(totals_R, request_B) - scores_B, 0.0)


def _mixed(share: float, listwise_B: Tensor, logits_B: Tensor, examples: Examples) -> Tensor:
    pointwise_B = tf.nn.sigmoid_cross_entropy_with_logits(labels=examples.labels_B, logits=logits_B)
    return (1.0 - share) * pointwise_B + share * listwise_B
