"""The live page of a stream: `page` writes frames, `server` is the process that browsers read."""
