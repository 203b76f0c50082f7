"""A page that is open: `python reading.py LINK`. Prints how many members the first figures have, and reads on."""

from __future__ import annotations

import json
import re
import sys
from http.client import HTTPConnection

address, path = sys.argv[1].removeprefix("http://").split("/", 1)


connection = HTTPConnection(address)
connection.request("GET", f"/{path}")
answer = connection.getresponse()
cookie = answer.headers["Set-Cookie"].partition(";")[0]
page = re.findall(r"url=(/[^/]+/)", answer.read().decode())[0]
connection = HTTPConnection(address)
connection.request("GET", f"{page}events", headers={"Cookie": cookie})
events = connection.getresponse()
for line in iter(events.readline, b""):
    if line.startswith(b"data: ") and "members" in (told := json.loads(line.removeprefix(b"data: "))):
        here = sum(member["here"] for member in told["members"] if member["role"] == "executor")
        print("figures", here, flush=True)
