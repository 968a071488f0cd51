"""Mechanisms: how the state of instances gets from one worker to another, as plans.

In come the transfers of a rebinding and what is known of the links between nodes; out goes a plan: batches of steps in
queues. Nothing here moves anything. A runtime executes a plan, and refuses one with steps that it cannot execute.
"""
