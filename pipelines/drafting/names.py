"""Hints in the names of columns, and the names in a spec."""

import re
from collections.abc import Container

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MOST_CHARACTERS = 63


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


IDS = _set("id ids uid uuid guid key code sku hash zip zipcode postcode isbn asin")
USERS = _set(
    "user users customer member household visitor account client viewer buyer shopper reader player person uid"
)
ITEMS = _set(
    "item product post article video song track movie book ad campaign creative author creator seller merchant shop "
    "store brand publisher channel page listing query artist album playlist episode restaurant hotel recipe game app "
    "job course"
)
CATEGORIES = _set(
    "type category kind class status tab device country language lang gender platform os browser city region state "
    "locale source segment"
)
EVENTS = _set("request impression session event row line uuid guid")
ACTIONS = _set(
    "click like share download watch view play purchase buy bought order reorder cart save follow subscribe comment "
    "reply install convert conversion finish complete skip open book apply favorite favourite retweet repost upvote "
    "vote hide report dislike label target churn engage join signup"
)
EARLIER = _set("before previous previously prev earlier ever last past recent history")
HISTORIES = EARLIER | _set("sequence seq clicked viewed watched bought played liked purchased read visited")
TIMES = _set("time timestamp ts at date datetime since")
EVENT_TIMES = _set("event_time event_timestamp event_ts timestamp ts time shown_at event_at logged_at")
AGGREGATES = _set("rate ratio ctr cvr count total sum mean average avg")
AMOUNTS = _set(
    "age price amount cost fee fare income salary wage balance size length width height weight area distance duration "
    "score seconds minutes hours days weeks months years num quantity qty views likes followers"
)
POSITIONS = _set("position slot")
_FLAGS = _set("is has was can from with in used")


def words_of(column: str) -> list[str]:
    """Returns the words of a column's name in lower case: `userID` and `user_id` have two."""
    return [word.lower() for word in _WORD.findall(column)]


def name_of(column: str, taken: Container[str] = ()) -> str:
    """Returns a new name that a spec allows for a column, like the column's if possible."""
    name = column if re.fullmatch(r"[a-z][a-z0-9_]{0,62}", column) else "_".join(words_of(column))
    if not name[:1].isalpha():
        name = f"column_{name}".rstrip("_")
    name, number = name[:_MOST_CHARACTERS], 2
    while name in taken:
        end = f"_{number}"
        name, number = name[: _MOST_CHARACTERS - len(end)].removesuffix(f"_{number - 1}") + end, number + 1
    return name


def entity_of(column: str) -> str:
    """Returns the entity of an id column, `user` for `user_id`; empty if the name has no ending of an id."""
    words = words_of(column)
    return "_".join(words[:-1]) if len(words) > 1 and words[-1] in {"id", "ids", "uuid", "guid", "key"} else ""


def is_id_of(column: str, entities: Container[str]) -> bool:
    """Returns whether an id's column is named as one of some entities: `item`, `itemId`."""
    return (entity_of(column) or name_of(column)) in entities


def plural_of(noun: str) -> str:
    """Returns the regular plural of a noun."""
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search(r"(s|x|z|ch|sh)$", noun) else f"{noun}s"


def is_action(column: str) -> bool:
    """Returns whether a column's name is an action of users, such as `clicked`, `add_to_cart` or `label`."""
    words = words_of(column)
    return not EARLIER & set(words) and any(stem in ACTIONS for word in words for stem in _stems(word))


def is_flag(column: str) -> bool:
    """Returns whether the name of a binary column is a fact known before the event, such as `is_premium`."""
    words = words_of(column)
    return bool(EARLIER & set(words)) or (words[:1] != [] and words[0] in _FLAGS and not is_action(column))


def _stems(word: str) -> set[str]:
    return {word, *(word.removesuffix(end) for end in ("s", "d", "ed", "ing")), re.sub(r"(.)\1(ed|ing)$", r"\1", word)}
