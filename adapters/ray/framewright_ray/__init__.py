"""Sweeps of framewright on a Ray cluster: ``python -m framewright_ray PLAN.toml -o OUT.csv``.

The shards of a plan are Ray tasks. Each task runs ``framewright sweep PLAN --shard I/N`` and returns the bytes of its
table. The driver keeps these as parts, and joins them by ``framewright sweep merge``.

==========  ==========================================================
module      job
==========  ==========================================================
`__main__`  arguments and exit codes
`sweep`     the driver: parts, tasks, the table at the end
`ship`      the files that Ray copies to each node
`shard`     the work of a task
==========  ==========================================================
"""
