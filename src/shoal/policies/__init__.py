"""Policies: propose bindings, splits, numbers of workers and turns; the controller or the runtime enacts them.

Measured loads, the current binding and the topology come in; a proposal goes out. Policies are pure: the same values
give the same proposal. `catalog` lists the binding policies by name.
"""
