"""Migration between threads: moves, splits and merges of instances while the run goes on.

Plans of mechanisms and repartition commands come in; state handed between workers and reports of finished moves go
out. A lane is divided among workers: a split upstream of each input sends rows to the owner of their instance, and
every worker has one part of the lane with the state of its instances. An instance moves without a stop as follows:

1. Request. The target worker sends the owner a `MigrationRequest` with the watermark that it has emitted. It emits no
   higher watermark until the instance has arrived.
2. Hand-over. When the owner's watermark is at least that of the request, the owner takes the state out, sends it
   (`Arrival`), and then publishes the new owner in `Ownership.now`. Only the owner of an instance may give it away.
3. Forwarding. Rows that still reach the old owner are forwarded (`ForwardedRows`), and so is the watermark up to which
   no more of them can come (`WatermarkPromise`). For the old owner the instance is outgoing.
4. Buffering. At the target the instance is incoming and has a watermark of its own, at most the one promised. Rows
   that arrive there directly are buffered, so that all rows are processed in the order in which they were sent. Every
   row waits until the instance has the watermark at which it came, and finds the same windows closed as without a move.
5. Acknowledgement. Every split writes the new version of the ownership into its channels. When the old owner has read
   it from an input, no more rows come by that input (`InputDrained`), and the target processes what it has buffered.
6. Settling. When all inputs are drained and the watermarks are equal, the instance joins the others at the target.

A request says in which way the instance is to move (`way`). Its state comes with it, is dropped, or there is a step
before the others or after them:

0. Preparing. The target asks for a replica (`PrepareRequest`). The owner sends a copy of the state (`CopiedState`), or
   an empty one and from then on all rows as well (`MirroredRows`); nothing that the replica brings is emitted. When the
   replica, with what has changed since, is all that the target needs, the owner says so (`Prepared`), and the target
   sends its request. A preparation ends with a hand-over to another worker or a split (`Unprepared`).

7. Following. The owner keeps the states that it has taken out (`FollowingStates`) and sends instances without state in
   step 2. It then sends one state per turn (`StateArrival`), in an order that the way says, and sooner what the target
   asks for (`FetchState`). Until its state is here, an instance has the watermark that it had, or any at which no
   result depends on that state. It settles with its state.

No worker waits for another. No row arrives after its window is closed, and no result after a watermark that excludes
it. `stop_the_world` moves instances at a barrier instead; `reassignment` describes splits and merges.
"""
