"""The AWS wire formats, server side, out of botocore's own service models: parsing, validating, serialising.

EC2 and STS speak the query protocol (form in, XML out), SSM, Pricing and Service Quotas JSON 1.1, Scheduler
and Savings Plans REST with JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, cast
from urllib.parse import unquote
from xml.sax.saxutils import escape

from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader
from botocore.model import ListShape, OperationModel, ServiceModel, Shape, StructureShape
from botocore.validate import ParamValidator

SERVICES = {
    "ec2": "ec2",
    "sts": "sts",
    "ssm": "ssm",
    "pricing": "pricing",
    "servicequotas": "service-quotas",
    "scheduler": "scheduler",
    "savingsplans": "savingsplans",
    "s3": "s3",
}
"""The services that are served here: signing name to botocore's name."""

_JSON = {"json": "application/x-amz-json-1.1", "rest-json": "application/json"}
"""Protocols that speak JSON: the content type of each."""

Tree = dict[str, "str | Tree"]


class AwsError(Exception):
    """An error as AWS answers it: code, message, HTTP status, and what S3 says besides."""

    def __init__(
        self, code: str, message: str, status: int = 400, *, details: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.details = details or {}


def not_emulated(what: str) -> AwsError:
    """The sandbox's own refusal: AWS does this, the sandbox does not."""
    return AwsError("UnsupportedOperation", f"The gpucloud sandbox does not emulate {what}")


class HiddenError(AwsError):
    """A resource exists, but this read does not return it yet. The read is recorded."""


def part(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A structure among the parameters; empty where it is not given."""
    return parameters.get(name) or dict[str, Any]()


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes out over HTTP."""

    status: int
    content_type: str
    body: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@cache
def service_model(service: str) -> ServiceModel:
    """botocore's model of a service, by signing name."""
    name = SERVICES[service]
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


def operation(service: str, action: str) -> OperationModel:
    """One operation of a service.

    Raises:
        AwsError: there is none of this name.
    """
    model = service_model(service)
    if action not in model.operation_names:
        raise AwsError("InvalidAction", f"The action {action} is not valid for this web service.")
    return model.operation_model(action)


def rest_action(service: str, method: str, path: str) -> str:
    """Which operation of a REST service a method and a path are; empty for none, or another service."""
    if service not in SERVICES or service_model(service).metadata["protocol"] != "rest-json":
        return ""
    model = service_model(service)
    for name in model.operation_names:
        http = model.operation_model(name).http
        if http["method"] == method and _in_path(http["requestUri"], path) is not None:
            return str(name)
    return ""


def _in_path(template: str, path: str) -> dict[str, str] | None:
    """The values in a path; ``None`` where it does not fit."""
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
    found = re.fullmatch(pattern, path)
    return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


def parse(
    operation: OperationModel, body: str, form: Mapping[str, str], path: str, query: Mapping[str, str]
) -> dict[str, Any]:
    """The call's parameters, of the types that the model says, validated.

    Args:
        operation: which call.
        body: the request's body, for the JSON services.
        form: its form fields, of the body or of the query, for the query services.
        path: the URL's path, for the REST services.
        query: its query, likewise.

    Raises:
        AwsError: a parameter is missing, unknown or of the wrong type.
    """
    shape = operation.input_shape
    if operation.service_model.metadata["protocol"] == "json":
        parameters = _json(body)
    elif shape is None:
        parameters = {}
    elif operation.service_model.metadata["protocol"] == "rest-json":
        assert isinstance(shape, StructureShape)  # noqa: S101  (for the type checker)
        names = {member.serialization.get("name"): name for name, member in shape.members.items()}
        asked = {names.get(name, name): value for name, value in query.items()}
        parameters = {**_json(body), **asked, **(_in_path(operation.http["requestUri"], path) or {})}
    else:
        _check_version(operation, form.get("Version"))
        fields = {
            name: value
            for name, value in form.items()
            if name not in {"Action", "Version"} and not name.startswith("X-Amz-")
        }
        parameters = _structure(shape, _tree(fields), "")
    if shape is not None:
        report = ParamValidator().validate(parameters, shape)
        if report.has_errors():
            text = " ".join(report.generate_report().split())
            code = "MissingParameter" if "Missing required" in text else "InvalidParameterValue"
            if operation.service_model.metadata["protocol"] == "query":
                code = "ValidationError"
            raise AwsError(code, text)
    return parameters


def _check_version(operation: OperationModel, version: str | None) -> None:
    served = operation.service_model.api_version
    if version is None:
        raise AwsError("MissingParameter", "The request must contain the parameter Version")
    if version != served:
        service = operation.service_model.service_id
        text = f"The requested version ({version}) of service {service} does not exist; here it is {served}"
        raise AwsError("NoSuchVersion", text)


def documented_filters(operation: OperationModel) -> frozenset[str]:
    """The names of the filters that AWS documents for a call, out of the text of its model."""
    shape = operation.input_shape
    filters = shape.members.get("Filters") if isinstance(shape, StructureShape) else None
    text = "" if filters is None else filters.documentation
    return frozenset(re.findall(r"<code>([\w.:-]+)(?:</code>|:&lt;)", text))


def answer(operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Answer:
    """A successful answer. ``result`` is in the shape of the operation's output; times are RFC 3339 texts."""
    shape = operation.output_shape
    protocol = operation.service_model.metadata["protocol"]
    if protocol in _JSON:
        document: Any = dict[str, Any]() if shape is None else _plain(shape, result)
        return Answer(200, _JSON[protocol], json.dumps(document))
    inner = "" if shape is None else _members(shape, result)
    namespace = operation.service_model.metadata["xmlNamespace"].rstrip("/")
    if protocol == "ec2":
        # The trailing slash, the lower-case element and the answer of a call that has none are EC2's own
        inner = "<return>true</return>" if shape is None else inner
        xml = (
            f'<{operation.name}Response xmlns="{namespace}/"><requestId>{request_id}</requestId>{inner}'
            f"</{operation.name}Response>"
        )
    else:
        xml = (
            f'<{operation.name}Response xmlns="{namespace}/">'
            f"<{operation.name}Result>{inner}</{operation.name}Result>"
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
            f"</{operation.name}Response>"
        )
    return Answer(200, "text/xml;charset=UTF-8", _DECLARATION + xml)


_RENAMED = {
    "elasticloadbalancing": "elbv2",
    "monitoring": "cloudwatch",
    "states": "stepfunctions",
    "tagging": "resourcegroupstaggingapi",
}
"""Services that are not served here, and which botocore calls otherwise than signatures do."""


@cache
def protocol_of(service: str) -> str:
    """The protocol of a service, emulated or not, by signing name; that of most where nobody knows it."""
    try:
        name = SERVICES.get(service) or _RENAMED.get(service, service)
        protocol: str = Loader().load_service_model(name, "service-2")["metadata"]["protocol"]
    except (UnknownServiceError, DataNotFoundError):
        return "json"
    return protocol


def error(service: str, failure: AwsError, request_id: str) -> Answer:
    """A failure in the form of the service that fails."""
    protocol = protocol_of(service)
    code, message = escape(failure.code), escape(failure.message)
    said = f"<Code>{code}</Code><Message>{message}</Message>"
    match protocol:
        case "ec2":
            xml = (
                f"<Response><Errors><Error>{said}</Error></Errors>"
                f"<RequestID>{request_id}</RequestID></Response>"
            )
        case "rest-xml" if service == "s3":
            return _storage_error(failure, said, request_id)
        case "query" | "rest-xml":
            fault = "Sender" if failure.status < 500 else "Receiver"
            xml = (
                f"<ErrorResponse{_NAMESPACE}><Error><Type>{fault}</Type>{said}</Error>"
                f"<RequestId>{request_id}</RequestId></ErrorResponse>"
            )
        case _:
            document = json.dumps({"__type": failure.code, "message": failure.message})
            return Answer(failure.status, _JSON.get(protocol, _JSON["json"]), document)
    return Answer(failure.status, "text/xml;charset=UTF-8", _DECLARATION + xml)


def _storage_error(failure: AwsError, said: str, request_id: str) -> Answer:
    """S3's refusal. HEAD has no body: code and message are in headers too, as S3's websites have them."""
    more = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in failure.details.items())
    xml = f"{_DECLARATION}<Error>{said}{more}<RequestId>{request_id}</RequestId></Error>"
    headers = {"x-amz-error-code": failure.code, "x-amz-error-message": ascii(failure.message)[1:-1]}
    if "Region" in failure.details:
        headers["x-amz-bucket-region"] = failure.details["Region"]
    return Answer(failure.status, "application/xml", xml, headers)


_NAMESPACE = ' xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _json(body: str) -> dict[str, Any]:
    try:
        parameters = json.loads(body or "{}")
    except ValueError:
        parameters = None
    if not isinstance(parameters, dict):
        raise AwsError("SerializationException", "The request body is no JSON object")
    return cast("dict[str, Any]", parameters)


def _tree(fields: Mapping[str, str]) -> Tree:
    """``{"Filter.1.Name": "x"}`` as ``{"Filter": {"1": {"Name": "x"}}}``."""
    root: Tree = {}
    for name, value in fields.items():
        *path, last = name.split(".")
        node = root
        for step in path:
            child = node.setdefault(step, {})
            if isinstance(child, str):
                raise AwsError("UnknownParameter", f"The parameter {name} is not recognized")
            node = child
        node[last] = value
    return root


def _structure(shape: Shape, node: Tree, at: str) -> dict[str, Any]:
    assert isinstance(shape, StructureShape)  # noqa: S101  (for the type checker)
    rest = dict(node)
    values: dict[str, Any] = {}
    for name, member in shape.members.items():
        key = name if name in rest else _query_name(name, member)
        if key in rest:
            values[name] = _value(member, rest.pop(key), f"{at}{key}")
    if rest:
        raise AwsError("UnknownParameter", f"The parameter {at}{next(iter(rest))} is not recognized")
    return values


def _value(shape: Shape, node: str | Tree, at: str) -> Any:
    if isinstance(shape, ListShape):
        if isinstance(node, str):
            raise AwsError("InvalidParameterValue", f"The parameter {at} is a list: write {at}.1")
        node = node.get("member", node)  # as the query protocol writes them; EC2 does not
        if isinstance(node, str):
            raise AwsError("MalformedQueryString", f"{at}.member has no number")
        try:
            items = sorted(node.items(), key=lambda item: int(item[0]))
        except ValueError:
            raise AwsError("MalformedQueryString", f"{at} has a member without a number") from None
        return [_value(shape.member, item, f"{at}.{number}") for number, item in items]
    if isinstance(shape, StructureShape):
        if isinstance(node, str):
            raise AwsError("InvalidParameterValue", f"The parameter {at} is a structure")
        return _structure(shape, node, f"{at}.")
    if not isinstance(node, str):
        raise AwsError("UnknownParameter", f"The parameter {at}.{next(iter(node))} is not recognized")
    return _scalar(shape.type_name, node, at)


def _scalar(type_name: str, text: str, at: str) -> Any:
    try:
        match type_name:
            case "integer" | "long":
                return int(text)
            case "float" | "double":
                return float(text)
            case "boolean":
                return {"true": True, "false": False}[text.lower()]
            case "timestamp":
                return datetime.fromisoformat(text)
            case _:
                return text
    except (ValueError, KeyError):
        raise AwsError("InvalidParameterValue", f"Value ({text}) for parameter {at} is invalid.") from None


def _query_name(name: str, member: Shape) -> str:
    """How EC2 names a parameter in a form (botocore/serialize.py, EC2Serializer)."""
    explicit = member.serialization.get("queryName")
    if explicit:
        return str(explicit)
    name = str(member.serialization.get("name", name))
    return name[0].upper() + name[1:]


def _members(shape: Shape, value: Mapping[str, Any]) -> str:
    assert isinstance(shape, StructureShape)  # noqa: S101  (for the type checker)
    return "".join(
        _element(member, value[name], str(member.serialization.get("name", name)))
        for name, member in shape.members.items()
        if value.get(name) is not None
    )


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # not allowed in XML


def _element(shape: Shape, value: Any, tag: str) -> str:
    if isinstance(shape, StructureShape):
        inner = _members(shape, value)
    elif isinstance(shape, ListShape):
        item = str(shape.member.serialization.get("name", "item"))
        inner = "".join(_element(shape.member, each, item) for each in value)
    elif shape.type_name == "boolean":
        inner = "true" if value else "false"
    else:
        inner = escape(_UNPRINTABLE.sub("", str(value)))
    return f"<{tag}>{inner}</{tag}>"


def _plain(shape: Shape, value: Any) -> Any:
    if isinstance(shape, StructureShape):
        return {
            name: _plain(member, value[name])
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if isinstance(shape, ListShape):
        return [_plain(shape.member, each) for each in value]
    if shape.type_name == "timestamp":
        return datetime.fromisoformat(value).timestamp()
    return value
