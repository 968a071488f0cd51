"""The digital twin: what a migration would cost with each mechanism, simulated ahead without data.

In comes a profile: the state that is to move, the rates of its keys, the link and the workers at both of its ends. The
twin lets every mechanism make its own plan and follows the plan over the link. Out goes a table of predictions, in the
order of an objective. Nothing here knows a clock or a runtime; the same profile always gives the same table.
"""
