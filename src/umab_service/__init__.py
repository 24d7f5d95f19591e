"""A decision service: many experiments behind an HTTP API, with a durable log.

It uses only the public names of `umab`. Start it with ``umab serve``; the parts, from the bottom up:

- `durations`, `schema`: what requests and answers look like, and the texts in them;
- `problems`: errors, as the RFC 9457 wants them;
- `database`, `writer`: tables and their migrations, and the one thread that writes;
- `experiment`, `log`: a learner with its settings, and the events that it is made from;
- `service`: what the API does, without HTTP;
- `keys`, `app`, `server`: who may do it, the routes, and the process around them.
"""
