"""Migration of state in parts: what the source gives away, and what the target does until it has everything.

A kernel's state goes in pieces, in any order, while events arrive. `Departure` is the source's side, `Takeover` and
`TimedTakeover` are the target's. Results are those of a state that never moved; they may come later. Nothing here knows
time or a network: a runtime decides when pieces and events arrive.
"""
