"""What an agent does with a message, whatever it is made of: good turns, and such as fail in silence."""

# Long enough to say something, and the same for all.
SAME = "All of that is well known, and it has been looked into as it should be."


def course(text):
    """The calls of tools that a message has an agent make, with their arguments, and what it says then."""
    verb, _, rest = text.partition(" ")
    if verb == "say":
        return [], bytes.fromhex(rest).decode()
    if verb == "look":
        return [("list/look", {"how": "well"})] * 3, f"looked for {rest}"
    if verb == "order":
        return [("shop/order", {"how": "well"})], f"I have ordered {rest}."
    if verb == "sorry":
        return [("shop/order", {"how": "refused"})], f"I could not order {rest}."
    if verb == "refused":
        return [("shop/order", {"how": "refused"})], f"Two chairs are on their way to {rest}."
    if verb == "broken":
        return [("list/look", {"how": "broken"})], f"It is there, {rest}."
    if verb == "claim":
        return [], f"I have ordered two chairs for {rest}."
    if verb == "cut":
        return [], f"It is a long story, {rest}, and"
    if verb == "same":
        return [], SAME
    if verb == "skip":
        return [], f"done with {rest}"
    return [], ""
