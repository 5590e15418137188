"""The columns of the handmade ranker."""

from sangam.schemas.contracts.export import ServedColumn

COLUMNS = {
    "user": ServedColumn(type="string", is_list=False, input="user"),
    "post id": ServedColumn(type="string", is_list=False, input="post"),
    "price": ServedColumn(type="float", is_list=False, input="price"),
    "topics": ServedColumn(type="int", is_list=True, input="topics"),
}
