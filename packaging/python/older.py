"""Makes an older wheel of a wheel, which only says that its version is 0.0.1: what an upgrade begins with."""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

wheel, folder = Path(sys.argv[1]), Path(sys.argv[2])
name, version, rest = wheel.name.split("-", 2)
old, new = f"{name}-{version}.dist-info/", f"{name}-0.0.1.dist-info/"
older = folder / f"{name}-0.0.1-{rest}"
records = []
with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(older, "w") as target:
    for member in source.namelist():
        data, path = source.read(member), member.replace(old, new)
        if path == new + "METADATA":
            data = data.replace(f"\nVersion: {version}\n".encode(), b"\nVersion: 0.0.1\n", 1)
        if path != new + "RECORD":
            target.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{path},sha256={digest},{len(data)}")
    # So that the upgrade has something to remove.
    target.writestr(f"{name}/only_in_the_older.py", b"")
    records.append(f"{name}/only_in_the_older.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0")
    target.writestr(new + "RECORD", "\n".join([*records, f"{new}RECORD,,"]) + "\n")
print(older)
