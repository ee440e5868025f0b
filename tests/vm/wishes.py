"""The lanes that are wished for in the guest; SERVER stands for the server's number."""

import json
import pathlib

SETTING = json.loads((pathlib.Path(__file__).resolve().parent / "setting.json").read_text())
CARD, PORT = SETTING["card"], SETTING["port"]

# One lane on the whole card, with everything that a card without rules for ports can be given.
WHOLE = f"""
[[nic]]
name = "{CARD}"
source-routing = true
gateway = "{SETTING['outside']}"
arp-filter = true

[[lane]]
name = "db"
ports = {PORT}
queues = 2
cores = "2-3"
threaded = true
process = {{ pid = SERVER }}
nice = -5
"""
PLAIN = f"""
[[nic]]
name = "{CARD}"

[[lane]]
name = "db"
ports = {PORT}
queues = 2
cores = "2-3"
process = {{ pid = SERVER }}
"""
POLLED = PLAIN.replace("process =", "busy-poll-us = 50\nprocess =")
FEWER = PLAIN.replace(f'name = "{CARD}"', f'name = "{CARD}"\nchannels = 2')
RESERVED = PLAIN.replace("process =", 'irq = "reserved 1"\nprocess =')
# The server's number stands behind, for who puts it into the group.
GROUPED = PLAIN.replace("process = { pid = SERVER }", 'process = { cgroup = "db/redis" }  # SERVER')
SOFT = f"""
[[nic]]
name = "{CARD}"
backend = "soft"

[[lane]]
name = "db"
ports = {PORT}
cores = "2-3"
rate-max = "500Mbit"
process = {{ pid = SERVER }}

[default]
rate-max = "100Mbit"
"""
# What the card can't do, and the reason that is told.
UNHAVABLE = {
    "tc-channel": "mqprio channel mode",
    "rss-ntuple": "takes no rules for ports",
}
