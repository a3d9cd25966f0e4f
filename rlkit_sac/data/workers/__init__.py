"""Collecting in several processes on Ray: a worker is a process with environments of its own."""
