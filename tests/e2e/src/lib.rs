//! Real processes: in network namespaces, under faults, with other people's clients; see `tests/`.
