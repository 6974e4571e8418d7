#!/usr/bin/env python3
"""Writes a folder as an OCI image archive, which `ctr images import` reads: an image without a container engine.

    image.py OUT.tar localhost/NAME:TAG FOLDER '["/entrypoint"]' [--also NAME]… [--user UID:GID] [--env NAME=VALUE]…
    image.py OUT.tar localhost/NAME:TAG FOLDER '["/entrypoint"]' --base ARCHIVE.tar [--also NAME]…

With --base the folder is put over the image of that archive, whose user and environment stay.

Without a registry in its name an image would be looked for on the internet; `localhost/` never is.
"""
import argparse
import hashlib
import io
import json
import platform
import tarfile
import tempfile

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OCI = "application/vnd.oci.image."


def blob(data: bytes, media_type: str) -> dict:
    return {"mediaType": OCI + media_type, "digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data)}


def layer_of(folder: str) -> bytes:
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(folder, arcname=".")
        file.seek(0)
        return file.read()


def base_of(path: str) -> tuple[dict, list[dict], list[bytes]]:
    """The configuration of an archive's image, what describes its layers, and these."""
    with tarfile.open(path) as archive:
        def read(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file, name
            return file.read()

        def content(described: dict) -> bytes:
            return read("blobs/sha256/" + described["digest"].removeprefix("sha256:"))

        (manifest, *_) = json.loads(read("index.json"))["manifests"]
        manifest = json.loads(content(manifest))
        layers = manifest["layers"]
        return json.loads(content(manifest["config"])), layers, [content(layer) for layer in layers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("out", "name", "folder", "entrypoint"):
        parser.add_argument(name)
    parser.add_argument("--also", action="append", default=[], help="another name of the same image")
    parser.add_argument("--base")
    parser.add_argument("--user", default="65532:65532")
    parser.add_argument("--env", action="append", default=[])
    of = parser.parse_args()

    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    nothing = {"config": {"User": of.user, "Env": [PATH, *of.env]}, "rootfs": {"type": "layers", "diff_ids": []}}
    image, layer_blobs, layers = base_of(of.base) if of.base else (nothing, [], [])
    layers.append(layer_of(of.folder))
    layer_blobs.append(blob(layers[-1], "layer.v1.tar"))
    image |= {"architecture": machine, "os": "linux"}
    image["config"]["Entrypoint"] = json.loads(of.entrypoint)
    image["rootfs"]["diff_ids"].append(layer_blobs[-1]["digest"])
    config = json.dumps(image).encode()
    manifest = json.dumps({
        "schemaVersion": 2,
        "mediaType": OCI + "manifest.v1+json",
        "config": blob(config, "config.v1+json"),
        "layers": layer_blobs,
    }).encode()
    described = blob(manifest, "manifest.v1+json")
    entries = [described | {"annotations": {"io.containerd.image.name": name}} for name in (of.name, *of.also)]
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()

    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
    files |= {"blobs/sha256/" + hashlib.sha256(data).hexdigest(): data for data in (config, *layers, manifest)}
    with tarfile.open(of.out, "w") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


main()
