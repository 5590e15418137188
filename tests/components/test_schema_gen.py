import pytest
from tensorflow_metadata.proto.v0 import schema_pb2

from components.schema_gen.schema import schema_text, tfmd_schema
from schemas.loading import load_spec
from tests.components.small_logs import INPUTS
from tests.golden_files import SPECS, check_golden


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
