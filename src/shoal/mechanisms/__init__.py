"""Migration mechanisms: plans for moving the state of instances from one worker to another.

In come the transfers of a rebinding and the measured costs of links; out goes a plan: batches of steps in queues.
Nothing here moves state. A runtime executes a plan, and rejects one with steps that it cannot execute.
"""
