import pytest
from tensorflow_metadata.proto.v0 import schema_pb2

from sangam.components.steps.schema_gen.schema import schema_text, tfmd_schema
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Inputs
from tests.components.logs.sample_logs import INPUTS
from tests.golden_files import check_golden
from tests.paths import SPECS


@pytest.mark.parametrize("name", ["short_video", "online_retail"])
def test_golden_schema(name: str) -> None:
    check_golden(f"{name}.schema.pbtxt", schema_text(load_spec(SPECS / f"{name}.yaml")))


def feature(name: str) -> schema_pb2.Feature:
    return next(each for each in tfmd_schema(INPUTS).feature if each.name == name)


def test_a_required_scalar_has_one_value_in_every_example() -> None:
    hour = feature("hour")
    assert hour.type == schema_pb2.INT
    assert (hour.presence.min_fraction, hour.presence.min_count) == (1.0, 1)
    assert (hour.value_count.min, hour.value_count.max) == (1, 1)


def test_a_scalar_with_a_value_for_missing_may_be_absent() -> None:
    price = feature("price")
    assert price.type == schema_pb2.FLOAT
    assert not price.HasField("presence")
    assert (price.value_count.min, price.value_count.max) == (0, 1)


def test_a_list_may_have_any_number_of_values() -> None:
    tags = feature("tags")
    assert tags.type == schema_pb2.BYTES
    assert not tags.HasField("presence")
    assert not tags.HasField("value_count")


def test_a_binary_label_is_0_or_1_and_a_regression_label_any_number() -> None:
    assert (feature("like").int_domain.min, feature("like").int_domain.max) == (0, 1)
    assert feature("rating").type == schema_pb2.FLOAT


def test_vectors_have_their_length_and_masks_and_weights_their_range() -> None:
    inputs = Inputs.model_validate(
        {
            "features": {
                "image": {"kind": "vector", "dim": 3},
                "tags": {"kind": "ids", "type": "int", "table": "t", "combiner": "sum", "weights": "w"},
            },
            "tasks": {
                "buy": {"kind": "binary", "only_where": "clicked", "example_weight": "worth", "missing_label": "mask"},
                "watch": {"kind": "watch_time"},
            },
        }
    )
    of = {each.name: each for each in tfmd_schema(inputs).feature}
    assert (of["image"].value_count.min, of["image"].value_count.max) == (3, 3)
    assert of["image"].presence.min_fraction == 1
    assert not of["w"].HasField("value_count")
    assert not any(of[name].HasField("presence") for name in ("w", "clicked", "buy", "worth"))
    assert (of["clicked"].int_domain.min, of["clicked"].int_domain.max) == (0, 1)
    assert of["worth"].HasField("float_domain")
    assert of["watch"].HasField("float_domain")
    assert of["watch"].presence.min_fraction == 1
