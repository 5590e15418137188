"""Transform's outputs: which there are, and what they look like."""

from sangam.schemas.derived.columns import EVENT_TIME
from sangam.schemas.derived.outputs import Output, outputs
from tests.schemas.sample_inputs import EVERY_KIND


def test_each_kind_of_feature_and_task_has_its_outputs() -> None:
    assert outputs(EVERY_KIND) == [
        Output("price", "float"),
        Output("position", "float"),
        Output("position/serving", "float"),
        Output("price_bucket", "float"),
        Output("page", "key"),
        Output("page/serving", "key"),
        Output("user", "key"),
        Output("place", "key"),
        Output("place/serving", "key"),
        Output("user_item", "key"),
        Output("tags", "key", is_list=True),
        Output("tags/weights", "float", is_list=True),
        Output("recent", "key", is_list=True),
        Output("image", "float", width=4),
        Output("hour", "float", width=2),
        Output("weekday", "key"),
        Output("age", "float"),
        Output("bought_before", "float"),
        Output("click", "float"),
        Output("buy", "float"),
        Output("rating", "float"),
        Output("watch", "float"),
        Output("buy/example_weight", "float"),
        Output(EVENT_TIME, "key"),
    ]
