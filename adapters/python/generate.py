"""Writes src/boatswain/operations.py from the OpenAPI document of a driver.

    curl 127.0.0.1:7117/openapi.json | python3 generate.py > src/boatswain/operations.py

The keys of a profile are those of the configuration. They come from the schema of the chart's values, into which the
driver's tests write them.

A test compares the file with what the driver's document gives, so that client and driver cannot drift apart.
"""

import json
import keyword
import pathlib
import re
import sys
import textwrap

HEAD = '''"""The requests of the HTTP API, and the JSON of their bodies and answers.

Made by generate.py from the driver's OpenAPI document. Do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import NotRequired
'''

VALUES = pathlib.Path(__file__).parents[2] / "deploy/chart/values.schema.json"

# Their answers are no JSON, or they are read by a method of their own.
LEFT_OUT = {"/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/events"}


def name_of(ref):
    return ref.rsplit("/", 1)[1]


def type_of(schema):
    """The Python type of a schema, as text."""
    if "$ref" in schema:
        return name_of(schema["$ref"])
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    if "oneOf" in schema or "anyOf" in schema:
        return " | ".join(type_of(one) for one in schema.get("oneOf") or schema["anyOf"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(type_of({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}))}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"{schema.get('map', 'dict')}[str, {type_of(values) if isinstance(values, dict) else 'Any'}]"
    return {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}.get(kind, "Any")


def profile_types(described):
    """The schemas of a profile that is added: the configuration's keys, and what the document says of it."""
    config = json.loads(VALUES.read_text())["properties"]["config"]
    found = {}
    split(without_null(config["properties"]["profiles"]["additionalProperties"]), "NewProfile", found)
    keys = {**described["properties"], **found["NewProfile"]["properties"]}
    return {**found, "NewProfile": {**described, "properties": keys}}


def without_null(schema):
    """Helm lets each value be null, which unsets it."""
    if isinstance(schema, list):
        return [without_null(one) for one in schema if one not in ("null", None, {"type": "null"})]
    return {key: without_null(one) for key, one in schema.items()} if isinstance(schema, dict) else schema


def split(schema, name, found):
    """The schema, with each object in it as one of `found`, which is named after its key."""
    for place in ("items", "additionalProperties"):
        if isinstance(schema.get(place), dict):
            schema = {**schema, place: split(schema[place], name.removesuffix("s"), found)}
    if not is_object(schema):
        # A mapping of strings to strings is one of strings to strings or sources, a dict is not.
        return {**schema, "map": "Mapping"}
    keys = {key: split(one, "Profile" + key.title().replace("_", ""), found) for key, one in schema["properties"].items()}
    found[name] = {"properties": keys}
    named = {"$ref": f"/{name}"}
    return {"anyOf": [{"type": "string"}, named]} if "string" in schema["type"] else named


def is_object(schema):
    return "properties" in schema


def comment(text, indent):
    return textwrap.wrap(text, 110 - len(indent), initial_indent=indent + "# ", subsequent_indent=indent + "# ")


def written_type(name, schema):
    lines = comment(schema["description"], "") if "description" in schema else []
    if not is_object(schema):
        return [*lines, f"{name} = {type_of(schema)}"]
    lines.append(f"class {name}(TypedDict):")
    required = schema.get("required", [])
    for key, value in sorted(schema["properties"].items()):
        if "description" in value:
            lines += comment(value["description"], "    ")
        text = type_of(value)
        lines.append(f"    {key}: {text if key in required else f'NotRequired[{text}]'}")
    return lines


def method_name(method, path):
    """`GET /v1/executors/{id}` is `executor`, `PUT /v1/targets` is `put_targets`, `POST /v1/executors/kill` is `kill`."""
    parts = path.split("/")[2:]
    last = parts[-1]
    if last.startswith("{"):
        last = parts[-2].removesuffix("s")
    name = last.replace("-", "_")
    return name if method in ("get", "post") else f"{method}_{name}"


def arguments(operation, document):
    """The declared arguments, and the expression of the body."""
    declared = []
    for given in operation.get("parameters", []):
        if given["in"] == "path":
            declared.append(f"{given['name']}: {type_of(given['schema'])}")
    finds = [given["name"] for given in operation.get("parameters", []) if given["in"] == "query"]
    if finds:
        declared += ["*", *(f"{name}: str | None = None" for name in finds)]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return declared, "None"
    name = name_of(content["schema"]["$ref"])
    schema = document["components"]["schemas"][name]
    # An object with keys that are not listed is passed as it is.
    if schema.get("additionalProperties") is not False and name != "Targets":
        return [*declared, f"body: {name}"], "body"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    assert not any(keyword.iskeyword(key) for key in properties), name
    declared += [f"{key}: {type_of(properties[key])}" for key in required]
    optional = sorted(set(properties) - set(required))
    if optional:
        declared.append("*")
        declared += [f"{key}: {with_none(type_of(properties[key]))} = None" for key in optional]
    pairs = ", ".join(f'"{key}": {key}' for key in [*required, *optional])
    return declared, "{" + pairs + "}"


def query(operation):
    """The part of a path that selects from the answer, as text of an f-string."""
    finds = [given["name"] for given in operation.get("parameters", []) if given["in"] == "query"]
    return "{query(" + ", ".join(f"{name}={name}" for name in finds) + ")}" if finds else ""


def with_none(text):
    return text if text.endswith("| None") else f"{text} | None"


def written_methods(document):
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            if path in LEFT_OUT or method == "parameters":
                continue
            good = next(answer for code, answer in sorted(operation["responses"].items()) if code.startswith("2"))
            answer = type_of(good["content"]["application/json"]["schema"])
            declared, body = arguments(operation, document)
            text = operation.get("summary") or operation.get("description", "")
            yield {
                "name": method_name(method, path),
                "arguments": ", ".join(["self", *declared]),
                "answer": answer,
                "method": method.upper(),
                "path": re.sub(r"\{(\w+)\}", r"{segment(\1)}", path) + query(operation),
                "body": body,
                "text": text.split("\n")[0],
            }


def written_class(name, base, prefix, wait, methods):
    lines = [f"class {name}:", f'    """{base}"""', ""]
    lines += [f"    {prefix}def _call(self, method: str, path: str, body: Any) -> Any:", "        raise NotImplementedError", ""]
    for one in methods:
        quote = "f" if "{" in one["path"] else ""
        lines.append(f"    {prefix}def {one['name']}({one['arguments']}) -> {one['answer']}:")
        lines.append(f'        """{one["text"]}"""')
        lines.append(f'        return {wait}self._call("{one["method"]}", {quote}"{one["path"]}", {one["body"]})')
        lines.append("")
    return lines


def generate(document):
    lines = [HEAD]
    schemas = document["components"]["schemas"]
    schemas = {**schemas, **profile_types(schemas["NewProfile"])}
    # Aliases are evaluated when the module is imported, so what they name comes first.
    for name, schema in sorted(schemas.items(), key=lambda pair: (is_object(pair[1]), pair[0])):
        if name == "Nothing":
            continue
        lines += [*written_type(name, schema), "", ""]
    lines += [
        "def segment(value: Any) -> str:",
        '    """A value as one segment of a path."""',
        '    return quote(str(value), safe="")',
        "",
        "",
        "def query(**values: str | None) -> str:",
        '    """The query of a path, with the values that are given."""',
        "    given = {name: value for name, value in values.items() if value is not None}",
        '    return f"?{urlencode(given)}" if given else ""',
        "",
        "",
    ]
    methods = list(written_methods(document))
    lines += [*written_class("Operations", "Requests that wait for their answers.", "", "", methods), ""]
    lines += written_class("AsyncOperations", "Requests to await.", "async ", "await ", methods)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(generate(json.load(sys.stdin)))
